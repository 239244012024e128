#include "member/worker_logic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::member {
namespace {
}  // namespace
}  // namespace paceline::member

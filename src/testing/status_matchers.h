#pragma once

#include <gmock/gmock.h>

#include "base/status.h"

namespace paceline::testing {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}

// EXPECT_THAT(Open(path), IsOk());
MATCHER(IsOk, "is ok") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// EXPECT_THAT(Open(path), StatusIs(Code::kBadData, HasSubstr("offset 3073")));
MATCHER_P2(StatusIs, code, message_matcher,
           std::string("has code ") + CodeName(code) + " and a matching message") {
  const Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message_matcher, status.message(), result_listener);
}

}  // namespace paceline::testing

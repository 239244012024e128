#pragma once

#include <string_view>

#include "base/status.h"

namespace paceline::wire {

// Whether `text` is one JSON document that means the same to every reader: well-formed UTF-8
// JSON, no key twice in one object (most parsers keep one of the two without a word), no NUL byte,
// nested at most `max_depth` deep. kBadData names the byte or the key. Pure.
Status CheckJson(std::string_view text, int max_depth);

}  // namespace paceline::wire

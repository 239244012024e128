#pragma once

#include <string>

#include "job/run_status.h"

namespace paceline::job {

enum class TextStyle { kPlain, kColor };

// One screen for people: state, progress, members, parameter servers, last events. `now_unix` tells
// ages. Pure.
std::string StatusText(const RunSnapshot& snapshot, double now_unix, TextStyle style);

// The same as one JSON object.
std::string StatusJson(const RunSnapshot& snapshot);

enum class CsvHeader { kWith, kWithout };

// The members table as comma-separated values (RFC 4180, lines end in "\n"); empty cells are
// unknown.
std::string StatusCsv(const RunSnapshot& snapshot, CsvHeader header);

}  // namespace paceline::job

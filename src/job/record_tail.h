#pragma once

#include <cstdint>
#include <string>

namespace paceline::job {

// Steps done according to the end of a run's events.jsonl: what the last `step` or `view` record of
// the newest generation says. 0 when there is none.
std::uint64_t LastRecordedStep(const std::string& path);

}  // namespace paceline::job

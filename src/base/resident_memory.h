#pragma once

#include <cstdint>

namespace paceline {

// Memory of this process that is in RAM; 0 when the system does not say.
std::uint64_t ResidentBytes();

}  // namespace paceline

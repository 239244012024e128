#pragma once

#include <cstdint>

namespace paceline::testing {

// The seed of this test run: PACELINE_TEST_SEED or a fixed default, printed at the start, so that
// a failing run can be repeated exactly.
std::uint64_t TestSeed();

}  // namespace paceline::testing

#include <cstdlib>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/seed.h"

namespace paceline::testing {

std::uint64_t TestSeed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("PACELINE_TEST_SEED");
    return text == nullptr ? 20'240'601ULL : std::strtoull(text, nullptr, 10);
  }();
  return seed;
}

}  // namespace paceline::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  std::cout << "seed " << paceline::testing::TestSeed() << " (repeat with PACELINE_TEST_SEED)"
            << std::endl;
  return RUN_ALL_TESTS();
}

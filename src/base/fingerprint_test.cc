#include "base/fingerprint.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Fingerprint, DifferenceNamesKeysAndBothValues) {
  EXPECT_EQ(FingerprintDifference("a=1;b=2", "a=1;b=3;c=4"), "b: 2 / 3; c: (none) / 4");
  EXPECT_EQ(FingerprintDifference("a=1", "a=1"), "");
}

TEST(Fingerprint, IsMadeOfFieldsInTheirOrder) {
  EXPECT_EQ(MakeFingerprint({}), "");
  EXPECT_EQ(MakeFingerprint({{"b", "x=y"}, {"a", ""}}), "a=;b=x=y");
  EXPECT_EQ(FingerprintDifference(MakeFingerprint({{"b", "x=y"}}), MakeFingerprint({{"b", "x"}})),
            "b: x=y / x");
}

TEST(Fingerprint, NoDifferenceHidesBehindTheSeparator) {
  EXPECT_EQ(FingerprintDifference("a=1;a=2", "a=2"), "a=1;a=2 / a=2");
}

}  // namespace
}  // namespace paceline

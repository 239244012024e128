#include "algo/decay_rule.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::algo {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(DecayRule, AllDecayUnlessToldOtherwise) {
  EXPECT_TRUE(DecayRule().Decays("layer.bias", 1));
  EXPECT_TRUE(DecayRule::Parse("none")->Decays("layer.bias", 1));
}

TEST(DecayRule, NormBiasSparesTensorsOfRankOne) {
  const DecayRule rule = DecayRule::Parse("norm-bias").value();
  EXPECT_FALSE(rule.Decays("layer.bias", 1));
  EXPECT_FALSE(rule.Decays("temperature", 0));
  EXPECT_TRUE(rule.Decays("layer.weight", 2));
}

TEST(DecayRule, PatternsSpareNames) {
  const DecayRule rule = DecayRule::Parse("*.bn?.*,head.weight").value();
  EXPECT_FALSE(rule.Decays("block.bn1.weight", 1));
  EXPECT_FALSE(rule.Decays("head.weight", 2));
  EXPECT_TRUE(rule.Decays("head.weight2", 2));
  EXPECT_TRUE(rule.Decays("block.conv.bias", 1));
}

TEST(DecayRule, BothTogether) {
  const DecayRule rule = DecayRule::Parse("norm-bias,embedding.*").value();
  EXPECT_FALSE(rule.Decays("layer.bias", 1));
  EXPECT_FALSE(rule.Decays("embedding.weight", 2));
  EXPECT_TRUE(rule.Decays("layer.weight", 2));
}

TEST(DecayRule, AnEmptyPatternIsRefused) {
  for (const char* text : {"", "norm-bias,", ",a", "a,,b", "none,a"}) {
    EXPECT_THAT(DecayRule::Parse(text),
                StatusIs(Code::kInvalidArgument, HasSubstr("--decay-exclude")))
        << text;
  }
}

}  // namespace
}  // namespace paceline::algo

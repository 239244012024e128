#include "data/synthetic_ctr.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algo/metrics.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

CtrSample ReadOk(const CtrDataset& dataset, std::uint64_t index) {
  CtrSample sample;
  EXPECT_THAT(dataset.Read(index, sample), IsOk());
  return sample;
}

TEST(SyntheticCtr, IsAPureFunctionOfSeedSplitAndIndex) {
  const SyntheticCtr small({.seed = 3, .size = 20}), large({.seed = 3, .size = 1000}),
      other({.seed = 4, .size = 20}), held_out({.seed = 3, .size = 20, .split = Split::kTest});
  for (std::uint64_t index : {19U, 0U, 7U}) {
    EXPECT_EQ(ReadOk(small, index), ReadOk(large, index));
    EXPECT_NE(ReadOk(small, index), ReadOk(other, index));
    EXPECT_NE(ReadOk(small, index), ReadOk(held_out, index));
  }
}

TEST(SyntheticCtr, RefusesSamplesBeyondItsSize) {
  CtrSample sample;
  EXPECT_THAT(SyntheticCtr({.size = 0}).Read(0, sample),
              StatusIs(Code::kInvalidArgument, HasSubstr("0 of 0")));
  EXPECT_THAT(SyntheticCtr({.size = 1}).Read(0, sample), IsOk());
  EXPECT_THAT(SyntheticCtr({.size = 1}).Read(1, sample),
              StatusIs(Code::kInvalidArgument, HasSubstr("1 of 1")));
}

class SyntheticCtrIds : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ids, SyntheticCtrIds,
                         ::testing::Values(2, 7, kSyntheticCtrFewIds, kCtrIds));

TEST_P(SyntheticCtrIds, StayBelowTheirNumber) {
  const SyntheticCtr dataset({.seed = testing::TestSeed(), .ids = GetParam()});
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const CtrSample sample = ReadOk(dataset, i);
    ASSERT_LT(*std::ranges::max_element(sample.ids), GetParam());
  }
}

// Zipf's law: the most popular category of the last slot takes one part in the number of octaves,
// and half of all draws come from the square root of the vocabulary.
TEST(SyntheticCtr, FewCategoriesTakeMostOfTheDraws) {
  const SyntheticCtr dataset({.seed = testing::TestSeed()});
  constexpr std::uint64_t kSamples = 20'000;
  std::map<std::uint32_t, std::uint64_t> counts;
  for (std::uint64_t i = 0; i < kSamples; ++i) ++counts[ReadOk(dataset, i).ids.back()];
  std::vector<std::uint64_t> sorted;
  for (const auto& [id, count] : counts) sorted.push_back(count);
  std::ranges::sort(sorted, std::greater<>());
  EXPECT_NEAR(static_cast<double>(sorted[0]) / kSamples, 1.0 / 19, 0.01);
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < 1000; ++i) head += sorted[i];
  EXPECT_NEAR(static_cast<double>(head) / kSamples, 0.53, 0.05);
}

TEST(SyntheticCtr, LabelsFollowTheProbability) {
  for (std::uint64_t seed : {std::uint64_t{1}, testing::TestSeed()}) {
    const SyntheticCtr dataset({.seed = seed, .ids = kSyntheticCtrFewIds});
    constexpr std::uint64_t kSamples = 20'000;
    double clicks = 0, expected = 0;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      const CtrSample sample = ReadOk(dataset, i);
      clicks += sample.label;
      expected += dataset.ClickProbability(sample);
    }
    EXPECT_NEAR(clicks, expected, 4 * std::sqrt(kSamples / 4.0));
    EXPECT_GT(clicks, 0.03 * kSamples) << "seed " << seed;
    EXPECT_LT(clicks, 0.7 * kSamples) << "seed " << seed;
  }
}

TEST(SyntheticCtr, BestAucIsThatOfTheTrueProbabilities) {
  for (std::uint32_t ids : {kSyntheticCtrFewIds, kCtrIds}) {
    const SyntheticCtr dataset({.seed = testing::TestSeed(), .ids = ids});
    constexpr std::uint64_t kSamples = 20'000;
    std::vector<float> scores(kSamples);
    std::vector<std::uint8_t> labels(kSamples);
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      const CtrSample sample = ReadOk(dataset, i);
      scores[i] = static_cast<float>(dataset.ClickProbability(sample));
      labels[i] = sample.label;
    }
    const double best = dataset.BestAuc(kSamples);
    EXPECT_NEAR(algo::ExactAuc(scores, labels).value_or(0), best, 0.015);
    EXPECT_GT(best, 0.78);
    EXPECT_LT(best, 0.95);
  }
}

TEST(SyntheticCtr, FingerprintNamesEverythingThatShapesTheData) {
  EXPECT_EQ(SyntheticCtr({.seed = 9, .size = 5, .split = Split::kTest, .ids = 11}).Fingerprint(),
            "synthetic-ctr:1 seed:9 split:test records:5 ids:11");
}

}  // namespace
}  // namespace paceline::data

#include "ps/job_spec.h"

#include <limits>

#include <gmock/gmock.h>

#include "ps/core_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(JobSpec, ComesBackAsItWas) {
  JobSpec spec = TestJob(Apply::kTogether, 3);
  spec.tables[0].options.admission = {.rule = AdmissionRule::kByChance, .probability = 0.25};
  spec.tables[1].options.evict_after = 1000;
  spec.dense[0].shape = {5, 2, 5};
  spec.dense[2].kind = DenseKind::kWithoutDecay;
  spec.dense_optimizer = {.kind = RowOptimizerKind::kAdamW, .weight_decay = 0.5F, .beta2 = 0.95F};
  const auto decoded = DecodeJobSpec(EncodeJobSpec(spec));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, spec);
  EXPECT_EQ(JobDifference(*decoded, spec), "");
  EXPECT_EQ(spec.DenseFloats(), 61U);
}

TEST(JobSpec, DamageIsRefused) {
  const std::vector<std::byte> bytes = EncodeJobSpec(TestJob(Apply::kAtOnce, 2));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(DecodeJobSpec(std::span(bytes).first(length)),
                StatusIs(Code::kProtocol, ::testing::_));
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THAT(DecodeJobSpec(longer), StatusIs(Code::kProtocol, HasSubstr("too many")));
}

TEST(JobSpec, NonsenseIsNamed) {
  const auto refused = [](const auto& change, const char* why) {
    JobSpec spec = TestJob(Apply::kAtOnce, 2);
    change(spec);
    EXPECT_THAT(CheckJobSpec(spec), StatusIs(Code::kInvalidArgument, HasSubstr(why)));
    EXPECT_THAT(DecodeJobSpec(EncodeJobSpec(spec)), StatusIs(Code::kProtocol, HasSubstr(why)));
    EXPECT_NE(JobDifference(spec, TestJob(Apply::kAtOnce, 2)), "");
  };
  refused([](JobSpec& s) { s.tables[1].options.dim = 0; }, "'places'");
  refused([](JobSpec& s) { s.tables[1].options.name = "words"; }, "twice");
  refused([](JobSpec& s) { s.tables[0].learning_rate_scale = -1; }, "'words'");
  refused([](JobSpec& s) { s.dense[2].rows.row_floats = 0; }, "'bias'");
  refused([](JobSpec& s) { s.dense[2].rows.rows = std::uint64_t{1} << 60; }, "dense floats");
  refused([](JobSpec& s) { s.dense_optimizer.beta1 = std::numeric_limits<float>::infinity(); },
          "dense");
  refused([](JobSpec& s) { s.dense[0].shape = {5, 5}; }, "a shape that does not fit its 50 floats");
  refused([](JobSpec& s) { s.dense[0].shape = {-5, -10}; }, "a side of -5");
  refused([](JobSpec& s) { s.delay_compensation = -1; }, "compensation");
  refused(
      [](JobSpec& s) {
        s.apply = Apply::kTogether;
        s.trainers = 0;
      },
      "how many");
}

TEST(DensePiecesOf, CoverTheBufferOnce) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  for (const std::size_t servers : {1U, 2U, 3U, 7U, 70U}) {
    std::vector<int> kept(spec.DenseFloats());
    for (std::size_t index = 0; index < servers; ++index) {
      for (const DensePiece& piece : DensePiecesOf(spec, servers, index)) {
        for (std::uint64_t i = piece.begin; i < piece.begin + piece.count; ++i) ++kept[i];
      }
    }
    EXPECT_THAT(kept, ::testing::Each(1));
  }
  EXPECT_EQ(DensePiecesOf(spec, 1, 0),
            (std::vector<DensePiece>{{0, 0, 50}, {1, 50, 6}, {2, 56, 5}}));
}

}  // namespace
}  // namespace paceline::ps

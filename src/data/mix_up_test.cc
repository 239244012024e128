#include "data/mix_up.h"

#include <vector>

#include <gmock/gmock.h>

#include "data/image_batches.h"
#include "data/synthetic.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using testing::IsOk;

struct Images {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels, others;
  std::vector<float> weights;
  std::size_t tensors = 0;
};

std::unique_ptr<BatchSource> Plain() {
  return std::make_unique<ImageBatches>(
      std::make_shared<Synthetic>(SyntheticOptions{.seed = testing::TestSeed(), .size = 32}));
}

Images Fill(const BatchSource& source, std::size_t count, std::uint64_t step, bool training) {
  std::vector<SampleRef> samples;
  for (std::uint64_t i = 0; i < count; ++i) samples.push_back({.index = i + 3, .place = i});
  BatchBuffer buffer;
  EXPECT_THAT(source.Fill({.samples = samples,
                           .training = training,
                           .seed = testing::TestSeed(),
                           .step = Step(step)},
                          buffer),
              IsOk());
  const auto copy = [](auto values) { return std::vector(values.begin(), values.end()); };
  const std::vector<BatchTensor>& tensors = buffer.batch.tensors;
  Images images{copy(tensors[0].Floats()), copy(tensors[1].Integers()), {}, {}, tensors.size()};
  if (tensors.size() < 4) return images;
  images.others = copy(tensors[2].Integers());
  images.weights = copy(tensors[3].Floats());
  return images;
}

// Floats in place of labels.
class WithoutLabels final : public BatchSource {
 public:
  std::uint64_t size() const override { return 32; }
  std::string Fingerprint() const override { return "without labels"; }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override {
    const auto rows = static_cast<std::int64_t>(request.samples.size());
    PACELINE_TRY(buffer.Floats(0, {rows, 2}).status());
    return buffer.Floats(1, {rows}).status();
  }
};

TEST(MixUp, SamplesWithoutLabelsAreRefused) {
  const std::vector<SampleRef> samples{{.index = 1}, {.index = 2}};
  BatchBuffer buffer;
  EXPECT_THAT(MixUp(std::make_unique<WithoutLabels>(), 0.4)
                  .Fill({.samples = samples, .training = true}, buffer),
              testing::StatusIs(Code::kInvalidArgument, ::testing::HasSubstr("--mixup needs")));
}

// A buffer is filled many times.
TEST(MixUp, ABufferIsFilledAgain) {
  const MixUp mixing(Plain(), 0.4);
  const std::vector<SampleRef> samples{{.index = 1, .place = 0}, {.index = 2, .place = 1}};
  BatchBuffer buffer;
  for (const bool training : {true, true, false}) {
    EXPECT_THAT(mixing.Fill({.samples = samples, .training = training}, buffer), IsOk());
    EXPECT_EQ(buffer.batch.tensors.size(), training ? 4U : 2U);
  }
}

TEST(MixUp, EachSampleIsMixedWithItsPartner) {
  const MixUp mixing(Plain(), 0.4);
  for (const std::size_t count : {1U, 2U, 5U, 8U}) {
    const Images plain = Fill(*Plain(), count, 7, true);
    const Images mixed = Fill(mixing, count, 7, true);
    ASSERT_EQ(mixed.tensors, 4U);
    EXPECT_EQ(mixed.labels, plain.labels);
    const std::size_t image = plain.pixels.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t partner = count - 1 - i;
      EXPECT_EQ(mixed.others[i], plain.labels[partner]);
      const float w = mixed.weights[i];
      for (const std::size_t at : {std::size_t{0}, image / 3, image - 1}) {
        EXPECT_NEAR(mixed.pixels[i * image + at],
                    w * plain.pixels[i * image + at] + (1 - w) * plain.pixels[partner * image + at],
                    1e-5);
      }
    }
  }
}

TEST(MixUp, TheWeightIsAFunctionOfTheStep) {
  const MixUp mixing(Plain(), 0.4);
  EXPECT_EQ(Fill(mixing, 4, 1, true).weights, Fill(mixing, 4, 1, true).weights);
  EXPECT_NE(Fill(mixing, 4, 1, true).weights, Fill(mixing, 4, 2, true).weights);
}

// Mean 1/2, variance 1 / (4 (2 alpha + 1)).
TEST(MixUp, WeightsAreOfABetaDistribution) {
  constexpr double kAlpha = 0.4;
  constexpr int kDraws = 2000;
  const MixUp mixing(Plain(), kAlpha);
  double sum = 0, squares = 0;
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const double w = Fill(mixing, 1, step, true).weights[0];
    ASSERT_TRUE(w >= 0 && w <= 1);
    sum += w;
    squares += w * w;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5, 0.05);
  EXPECT_NEAR(squares / kDraws - mean * mean, 1 / (4 * (2 * kAlpha + 1)), 0.02);
}

TEST(MixUp, HeldOutSamplesStayAsTheyAre) {
  const MixUp mixing(Plain(), 0.4);
  const Images held_out = Fill(mixing, 3, 0, false);
  EXPECT_EQ(held_out.tensors, 2U);
  EXPECT_EQ(held_out.pixels, Fill(*Plain(), 3, 0, false).pixels);
}

}  // namespace
}  // namespace paceline::data

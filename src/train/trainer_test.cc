#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>

#include "base/clock.h"
#include "data/image_batches.h"
#include "data/loader.h"
#include "data/synthetic.h"
#include "kernel/reduce.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "train/evaluation.h"
#include "train/torch_guard.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

// A trainer with its data: `steps` steps of V shards of 4 samples.
class TrainerRig {
 public:
  TrainerRig(TrainerOptions options, std::uint64_t total_samples)
      : source_(std::make_shared<data::Synthetic>(
            data::SyntheticOptions{.seed = testing::TestSeed(), .size = 64})),
        plan_{.seed = testing::TestSeed(),
              .dataset_size = 64,
              .batch = 4,
              .shards = options.shards,
              .total_samples = total_samples} {
    options.seed = testing::TestSeed();
    trainer_ =
        Trainer::Create(BuildModel("vgg16-small", options.seed).value(), options, SystemClock())
            .value();
    loader_ =
        data::BatchLoader::Create(source_, plan_, {.end_shard = ShardId(options.shards)}).value();
  }

  StepOutcome RunStep(std::uint64_t step, double learning_rate = 0.01) {
    auto outcome = trainer_->RunStep({.step = Step(step),
                                      .samples = plan_.StepSamples(Step(step)),
                                      .learning_rate = learning_rate},
                                     [&] { return loader_->Next(std::stop_token()); });
    EXPECT_THAT(outcome, IsOk());
    return *outcome;
  }

  std::string RunAll() {
    for (std::uint64_t step = 0; step < plan_.Steps(); ++step) RunStep(step);
    return trainer_->params().Hash() + trainer_->buffers().Hash();
  }

  Trainer& trainer() { return *trainer_; }
  std::string Hash() { return trainer_->params().Hash() + trainer_->buffers().Hash(); }

 private:
  data::ImageBatches source_;
  algo::BatchPlan plan_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<data::BatchLoader> loader_;
};

TEST(Trainer, TheSameStepsGiveTheSameBits) {
  for (const std::uint64_t shards : {1U, 3U}) {
    for (const char* optimizer : {"sgd", "adam", "adagrad", "ftrl"}) {
      const TrainerOptions options{.shards = shards, .optimizer = {.name = optimizer}};
      EXPECT_EQ(TrainerRig(options, 3 * 4 * shards).RunAll(),
                TrainerRig(options, 3 * 4 * shards).RunAll())
          << optimizer << " with " << shards << " shards";
    }
  }
}

TEST(Trainer, EveryOptionChangesTheResult) {
  const std::string plain = TrainerRig({.optimizer = {.name = "sgd"}}, 12).RunAll();
  EXPECT_NE(TrainerRig({.optimizer = {.name = "sgd", .momentum = 0.9}}, 12).RunAll(), plain);
  EXPECT_NE(TrainerRig({.optimizer = {.name = "sgd", .weight_decay = 0.1}}, 12).RunAll(), plain);
  EXPECT_NE(TrainerRig({.optimizer = {.name = "sgd"}, .clip_norm = 0.01}, 12).RunAll(), plain);
}

// With plain SGD an update is learning rate times gradient, so its length shows the clipping.
TEST(Trainer, ClippingLimitsTheUpdate) {
  constexpr double kClip = 0.125, kRate = 0.5;
  TrainerRig rig({.optimizer = {.name = "sgd"}, .clip_norm = kClip}, 4);
  const std::vector<float> before(rig.trainer().params().All().begin(),
                                  rig.trainer().params().All().end());
  const StepOutcome outcome = rig.RunStep(0, kRate);
  ASSERT_GT(outcome.gradient_norm, kClip);
  std::vector<float> update(before.size());
  std::ranges::transform(rig.trainer().params().All(), before, update.begin(), std::minus<>());
  EXPECT_NEAR(std::sqrt(kernel::SquaredNorm(update)), kRate * kClip, 1e-4);
}

TEST(Trainer, ANanGradientNeverReachesTheState) {
  for (const std::uint64_t shards : {1U, 2U}) {
    TrainerRig rig(
        {.shards = shards, .optimizer = {.name = "adam"}, .gradient_fault = PoisonAt(Step(1))},
        3 * 4 * shards);
    EXPECT_TRUE(rig.RunStep(0).applied);
    const std::string before = rig.Hash();
    EXPECT_FALSE(rig.RunStep(1).applied);
    EXPECT_EQ(rig.Hash(), before);
    EXPECT_EQ(rig.trainer().optimizer().updates(), 1U);
    EXPECT_TRUE(rig.RunStep(2).applied);
    EXPECT_NE(rig.Hash(), before);
  }
}

TEST(Trainer, AShortLastStepWithEmptyShardsCounts) {
  TrainerRig rig({.shards = 3, .optimizer = {.name = "sgd"}},
                 12 + 3);  // second step: 3, 0 and 0 samples
  EXPECT_EQ(rig.RunStep(0).samples, 12U);
  const StepOutcome last = rig.RunStep(1);
  EXPECT_EQ(last.samples, 3U);
  EXPECT_TRUE(last.applied);
}

TEST(Trainer, LearnsAHandfulOfSamplesByHeart) {
  TrainerRig rig({.optimizer = {.name = "adam"}}, 64 * 4);
  double first = 0, last = 0;
  for (std::uint64_t step = 0; step < 64; ++step) {
    const double loss = rig.RunStep(step, 2e-3).loss;
    if (step < 8) first += loss;
    if (step >= 56) last += loss;
  }
  EXPECT_LT(last, first);
}

TEST(Evaluate, CountsEverySampleAndStopsWhenAsked) {
  const data::ImageBatches held_out(std::make_shared<data::Synthetic>(
      data::SyntheticOptions{.seed = 1, .size = 105, .split = data::Split::kTest}));
  const auto model = BuildModel("vgg16-small", 1);
  ASSERT_THAT(model, IsOk());
  const auto result = Evaluate(*model, held_out, {.batch = 50});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->samples, 105U);
  EXPECT_GT(result->Of("auc"), 0.3);
  EXPECT_LT(result->Of("auc"), 0.7);  // untrained
  EXPECT_GE(result->Of("top5"), result->Of("accuracy"));
  EXPECT_TRUE(std::isnan(result->Of("bleu")));
  EXPECT_THAT(Evaluate(*model, held_out, {50, [] { return true; }}),
              StatusIs(Code::kAborted, HasSubstr("stopped")));
}

TEST(TorchGuard, ShowsOneLineAndNoStack) {
  const Status status = TorchGuard([]() -> Status {
    torch::ones({2, 3}).mm(torch::ones({2, 3}));
    return {};
  });
  EXPECT_THAT(status, StatusIs(Code::kInternal, HasSubstr("torch: ")));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace paceline::train

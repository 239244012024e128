#include "job/train_config.h"

#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

const model::ModelCard& Vgg16() { return *model::FindModel("vgg16").value(); }

TrainConfig Resolved() {
  TrainConfig config;
  config.model = "vgg16";
  EXPECT_THAT(Resolve(config, Vgg16(), 2), IsOk());
  return config;
}

TEST(Resolve, TakesDefaultsFromCardAndMachine) {
  const TrainConfig config = Resolved();
  EXPECT_EQ(config.batch, 128);
  EXPECT_EQ(config.optimizer, "adam");
  EXPECT_EQ(config.lr, 1e-3);
  EXPECT_EQ(config.threads, 2);
  EXPECT_EQ(config.epochs, 1U);
  EXPECT_EQ(config.shards, 1);
}

TEST(Resolve, ReproducibleRunsUseOneThreadUnlessToldOtherwise) {
  TrainConfig config;
  config.reproducible = true;
  ASSERT_THAT(Resolve(config, Vgg16(), 8), IsOk());
  EXPECT_EQ(config.threads, 1);
}

TEST(Resolve, NamesTheFlagThatIsWrong) {
  struct Case {
    std::function<void(TrainConfig&)> change;
    const char* message;
  };
  const std::vector<Case> cases{
      {[](auto& c) { c.batch = -1; }, "--batch is -1; it must be 1 to"},
      {[](auto& c) { c.threads = -2; }, "--threads is -2"},
      {[](auto& c) { c.workers = 0; }, "--workers is 0; it must be 1 to"},
      {[](auto& c) { c.workers = 2, c.shards = 1; }, "--shards 1 is less than --workers 2"},
      {[](auto& c) { c.workers = 2, c.strategy = "local"; }, "--strategy local is one worker"},
      {[](auto& c) { c.engine = "pigeon"; }, "--engine is 'pigeon'"},
      {[](auto& c) { c.optimizer = "adamm"; }, "--optimizer is 'adamm'; it takes one of: sgd"},
      {[](auto& c) { c.lr_schedule = "step"; }, "--lr-decay-every"},
      {[](auto& c) { c.momentum = 0.9; }, "--momentum goes with --optimizer sgd"},
      {[](auto& c) { c.steps = c.epochs = 1; }, "--steps or --epochs, not both"},
      {[](auto& c) { c.keep = 1; }, "--keep is 1; it must be 2 to"},
      {[](auto& c) { c.strategy = "magic"; }, "--strategy is 'magic'"},
      {[](auto& c) { c.lr = -0.1; }, "--lr is -0.1"},
  };
  for (const Case& wrong : cases) {
    TrainConfig config;
    wrong.change(config);
    EXPECT_THAT(Resolve(config, Vgg16(), 2),
                StatusIs(Code::kInvalidArgument, HasSubstr(wrong.message)));
  }
}

TEST(Identity, SaysWhatDiffersAndIgnoresWhatDoesNotMatter) {
  const TrainConfig first = Resolved();
  TrainConfig second = first;
  second.run = "elsewhere";
  second.epochs = 7;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()), IsEmpty());
  second.batch = 64;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()),
              ElementsAre("batch: checkpoint 128, now 64"));
}

TEST(Identity, ACosineScheduleDependsOnItsEnd) {
  TrainConfig first = Resolved();
  first.lr_schedule = "cosine";
  TrainConfig second = first;
  second.epochs = 7;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()),
              ElementsAre("epochs: checkpoint 1, now 7"));
}

}  // namespace
}  // namespace paceline::job

#include "job/recipe.h"

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

using Change = std::function<void(TrainConfig&)>;

const model::ModelCard& Vgg16() { return *model::FindModel("vgg16").value(); }

// A card with a whole recipe.
model::ModelCard Card() {
  model::ModelCard card = Vgg16();
  card.optimizer = "adamw";
  card.beta1 = 0.8;
  card.beta2 = 0.98;
  card.epsilon = 1e-6;
  card.weight_decay = 0.01;
  card.lr_schedule = "linear";
  card.warmup_steps = 40;
  card.label_smoothing = 0.1;
  return card;
}

TrainConfig Resolved(const model::ModelCard& card, const Change& change = nullptr) {
  TrainConfig config;
  config.model = "vgg16";
  if (change) change(config);
  EXPECT_THAT(Resolve(config, card, 2), IsOk());
  return config;
}

TEST(Recipe, ModelsForImageNetDecayAfterEpochs) {
  const model::ModelCard& card = *model::FindModel("resnet50-imagenet").value();
  TrainConfig config{.model = card.name};
  ASSERT_THAT(Resolve(config, card, 1), IsOk());
  EXPECT_EQ(config.lr_decay_at, "30,60,80");
  EXPECT_EQ(config.Identity().at("lr-decay-at"), "30,60,80");
  const auto schedule =
      ScheduleOf(config, {.dataset_size = 1000, .batch = 32, .shards = 8, .total_samples = 90'000});
  ASSERT_THAT(schedule, IsOk());
  EXPECT_EQ(schedule->decay_at, (std::vector<std::uint64_t>{118, 235, 313}));

  TrainConfig every{.model = card.name, .lr_decay_every = 5};
  ASSERT_THAT(Resolve(every, card, 1), IsOk());
  EXPECT_EQ(every.lr_decay_at, "");
  TrainConfig cosine{.model = card.name, .lr_schedule = "cosine"};
  ASSERT_THAT(Resolve(cosine, card, 1), IsOk());
  EXPECT_EQ(cosine.lr_decay_at, "");
  const model::ModelCard& plain = *model::FindModel("vgg16").value();
  TrainConfig implied{.model = plain.name, .lr_decay_at = "1,2"};
  ASSERT_THAT(Resolve(implied, plain, 1), IsOk());
  EXPECT_EQ(implied.lr_schedule, "step");
}

TEST(Recipe, TheCardDecidesWhatTheUserLeavesOpen) {
  const TrainConfig config = Resolved(Card());
  EXPECT_EQ(config.beta1, 0.8);
  EXPECT_EQ(config.beta2, 0.98);
  EXPECT_EQ(config.epsilon, 1e-6);
  EXPECT_EQ(config.weight_decay, 0.01);
  EXPECT_EQ(config.lr_schedule, "linear");
  EXPECT_EQ(config.warmup_steps, 40);
  EXPECT_EQ(config.label_smoothing, 0.1);
}

TEST(Recipe, TheUserMaySayZero) {
  const TrainConfig config = Resolved(Card(), [](auto& c) {
    c.weight_decay = c.label_smoothing = c.beta1 = 0;
    c.warmup_steps = 0;
    c.lr_schedule = "constant";
  });
  EXPECT_EQ(config.weight_decay, 0);
  EXPECT_EQ(config.label_smoothing, 0);
  EXPECT_EQ(config.beta1, 0);
  EXPECT_EQ(config.warmup_steps, 0);
  EXPECT_EQ(config.lr_schedule, "constant");
}

TEST(Recipe, AnotherOptimizerDoesNotTakeWhatBelongsToTheCards) {
  const TrainConfig config = Resolved(Card(), [](auto& c) { c.optimizer = "sgd"; });
  EXPECT_EQ(config.beta1, 0);
  EXPECT_EQ(config.weight_decay, 0);
  EXPECT_EQ(config.label_smoothing, 0.1);
}

TEST(Recipe, WithoutACardEachOptimizerHasItsUsualNumbers) {
  const TrainConfig adam = Resolved(Vgg16());
  EXPECT_EQ(adam.beta1, 0.9);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.epsilon, 1e-8);
  EXPECT_EQ(adam.lr_schedule, "constant");
  EXPECT_EQ(Resolved(Vgg16(), [](auto& c) { c.optimizer = "lamb"; }).epsilon, 1e-6);
  EXPECT_EQ(Resolved(Vgg16(), [](auto& c) { c.optimizer = "adagrad"; }).epsilon, 1e-10);
}

TEST(Recipe, ResolvingTwiceChangesNothing) {
  for (const char* optimizer : {"sgd", "adam", "adamw", "adagrad", "ftrl", "lars", "lamb"}) {
    const TrainConfig once = Resolved(Card(), [&](auto& c) {
      c.optimizer = optimizer;
      c.accumulate = 3;
      c.threads = 1;  // else it counts as given the second time
    });
    TrainConfig twice = once;
    EXPECT_THAT(Resolve(twice, Card(), 2), IsOk()) << optimizer;
    EXPECT_EQ(twice, once) << optimizer;
  }
}

TEST(Recipe, AccumulateIsSoManyShardsOfEachWorker) {
  EXPECT_EQ(Resolved(Vgg16(), [](auto& c) { c.accumulate = 4; }).shards, 4);
  EXPECT_EQ(Resolved(Vgg16(), [](auto& c) { c.workers = 2, c.accumulate = 4; }).shards, 8);
}

TEST(Recipe, NamesTheFlagThatIsWrong) {
  struct Case {
    Change change;
    const char* message;
  };
  const std::vector<Case> cases{
      {[](auto& c) { c.beta1 = 1; }, "--beta1 is 1; it must be 0 to"},
      {[](auto& c) { c.beta2 = 2; }, "--beta2 is 2"},
      {[](auto& c) { c.epsilon = 7; }, "--epsilon is 7"},
      {[](auto& c) { c.optimizer = "sgd", c.beta1 = 0.5; }, "--beta1 and --beta2 go with"},
      {[](auto& c) { c.optimizer = "sgd", c.epsilon = 0.5; }, "--epsilon does not go with"},
      {[](auto& c) { c.optimizer = "lamb", c.momentum = 0.5; }, "--momentum goes with"},
      {[](auto& c) { c.optimizer = "lars", c.trust_coefficient = -1; }, "--trust-coefficient"},
      {[](auto& c) { c.optimizer = "ftrl", c.momentum = 0.5; }, "--momentum goes with"},
      {[](auto& c) { c.optimizer = "ftrl", c.epsilon = 0.5; }, "--epsilon does not go with"},
      {[](auto& c) { c.optimizer = "ftrl", c.ftrl_l1 = -1; }, "--ftrl-l1 is -1"},
      {[](auto& c) { c.ftrl_l1 = 0.5; }, "--ftrl-l1 goes with --optimizer or"},
      {[](auto& c) { c.table_optimizer = "ftrl", c.ftrl_l1 = -1; }, "--ftrl-l1 is -1"},
      {[](auto& c) { c.decay_exclude = "a,,b"; }, "--decay-exclude is 'a,,b'"},
      {[](auto& c) { c.label_smoothing = 1; }, "--label-smoothing is 1"},
      {[](auto& c) { c.ema = 1; }, "--ema is 1"},
      {[](auto& c) { c.mixup = 2; }, "--mixup is 2; it must be 0 to 1"},
      {[](auto& c) { c.loss_scale = "3"; }, "--loss-scale is '3'"},
      {[](auto& c) { c.lr_schedule = "zigzag"; }, "--lr-schedule is 'zigzag'"},
      {[](auto& c) { c.lr_power = -1; }, "--lr-power is -1"},
      {[](auto& c) { c.accumulate = -1; }, "--accumulate is -1"},
      {[](auto& c) { c.accumulate = 2, c.shards = 3; }, "is --shards 2, not 3"},
  };
  for (const Case& wrong : cases) {
    TrainConfig config;
    wrong.change(config);
    EXPECT_THAT(Resolve(config, Vgg16(), 2),
                StatusIs(Code::kInvalidArgument, HasSubstr(wrong.message)));
  }
}

TEST(Recipe, AScriptHasLabelsToSmoothUnlessItsLossIsMse) {
  TrainConfig config;
  config.model = "mine.pt";
  config.label_smoothing = 0.1;
  model::ModelCard card{.name = "mine.pt"};
  EXPECT_THAT(Resolve(config, card, 2), IsOk());
  card.family = model::Family::kCompression;
  config.loss = "mse";
  EXPECT_THAT(Resolve(config, card, 2),
              StatusIs(Code::kInvalidArgument,
                       HasSubstr("--label-smoothing: mine.pt with --loss mse has no labels")));
}

TEST(Recipe, WhatServersCannotDoIsSaid) {
  struct Case {
    Change change;
    const char* message;
  };
  const std::vector<Case> cases{
      {[](auto& c) { c.optimizer = "lars"; }, "--optimizer lars needs the norm of whole tensors"},
      {[](auto& c) { c.optimizer = "lamb"; }, "--optimizer lamb needs the norm of whole tensors"},
      {[](auto& c) { c.ema = 0.9; }, "--ema"},
      {[](auto& c) { c.loss_scale = "dynamic"; }, "--loss-scale dynamic"},
      {[](auto& c) { c.keep_best = true; }, "--keep-best"},
      {[](auto& c) { c.keep = 5; }, "--keep"},
      {[](auto& c) { c.patience = 2, c.mode = "async"; }, "--mode sync, not async"},
  };
  for (const Case& wrong : cases) {
    TrainConfig config;
    config.strategy = "ps";
    wrong.change(config);
    EXPECT_THAT(Resolve(config, Vgg16(), 2),
                StatusIs(Code::kInvalidArgument, HasSubstr(wrong.message)));
  }
  const std::vector<Change> fine{
      [](auto& c) { c.checkpoint_every = 5, c.checkpoint_required = true; },
      [](auto& c) { c.optimizer = "adamw", c.beta2 = 0.98, c.decay_exclude = "norm-bias"; },
      [](auto& c) { c.optimizer = "ftrl", c.ftrl_l1 = 0.1, c.decay_exclude = "norm-bias"; },
      [](auto& c) { c.loss_scale = "1024"; },
      [](auto& c) { c.patience = 2; },
  };
  for (const Change& change : fine) {
    TrainConfig config;
    config.strategy = "ps";
    change(config);
    EXPECT_THAT(Resolve(config, Vgg16(), 2), IsOk());
  }
}

// So that checkpoints from before these flags existed can still be resumed.
TEST(RecipeIdentity, UsualValuesAreNotInIt) {
  for (const char* optimizer : {"sgd", "adam", "adagrad", "ftrl"}) {
    std::map<std::string, std::string> identity;
    AddRecipeIdentity(Resolved(Vgg16(), [&](auto& c) { c.optimizer = optimizer; }), identity);
    EXPECT_THAT(identity, IsEmpty()) << optimizer;
  }
}

TEST(RecipeIdentity, SaysWhatDiffers) {
  const TrainConfig first = Resolved(Vgg16());
  TrainConfig second = first;
  second.beta2 = 0.98;
  second.ema = 0.5;
  second.decay_exclude = "norm-bias";
  second.patience = 3;  // decides no parameter
  second.keep_best = true;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()),
              ElementsAre("beta2: checkpoint (none), now 0.98",
                          "decay-exclude: checkpoint (none), now norm-bias",
                          "ema: checkpoint (none), now 0.5"));
}

TEST(RecipeIdentity, SchedulesWithAnEndDependOnIt) {
  for (const char* schedule : {"cosine", "linear", "poly", "one-cycle"}) {
    TrainConfig first = Resolved(Vgg16(), [&](auto& c) { c.lr_schedule = schedule; });
    TrainConfig second = first;
    second.epochs = 7;
    EXPECT_THAT(Differences(first.Identity(), second.Identity()),
                ElementsAre("epochs: checkpoint 1, now 7"))
        << schedule;
  }
}

}  // namespace
}  // namespace paceline::job

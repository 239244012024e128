// Optimisers, averages, loss scales and evaluation control, with a small model and real files.
#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/clock.h"
#include "base/rng.h"
#include "kernel/optimizer.h"
#include "kernel/reduce.h"
#include "model/catalog.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "train/small_run_test_util.h"
#include "train/training_run.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReadFile;
using testing::StatusIs;
using testing::TempDir;

// A matrix of several blocks and a bias, with gradients that are functions of the step.
class TwoTensors {
 public:
  explicit TwoTensors(const OptimizerOptions& options) {
    tensors_ = {module_.register_parameter("weight", torch::zeros({3, 70'001})),
                module_.register_parameter("bias", torch::zeros({5}))};
    params_.emplace(FlatTensors::OfParameters(module_));
    Fill(params_->Of(params_->ranges()[0]), 0);
    Fill(params_->Of(params_->ranges()[1]), 1);
    optimizer_.emplace(Optimizer::Make(options, *params_).value());
  }

  // Where all workers of a host have it.
  std::size_t Floats() const { return params_->All().size() + optimizer_->StateFloats(); }
  void MoveTo(std::span<float> memory, FlatTensors::Values values) {
    const std::size_t floats = params_->All().size();
    params_->MoveTo(memory.first(floats), tensors_, values);
    optimizer_->MoveTo(memory.subspan(floats), values);
  }

  void Step(std::uint64_t step, Optimizer::Share share = {}) {
    std::vector<std::vector<float>> gradients;
    GradientSpans spans;
    for (const NamedRange& range : params_->ranges()) {
      gradients.emplace_back(range.count);
      Fill(gradients.back(), 2 + step);
    }
    for (std::vector<float>& gradient : gradients) spans.emplace_back(gradient);
    optimizer_->Apply(0.01, spans, share);
  }

  std::string After(std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) Step(step);
    return Hash();
  }
  std::string Hash() const { return params_->Hash(); }
  // As the module's user sees it.
  float FirstOf(std::size_t tensor) const { return tensors_[tensor].flatten()[0].item<float>(); }

  std::vector<float> Values(std::size_t tensor) const {
    const auto values = params_->Of(params_->ranges()[tensor]);
    return {values.begin(), values.end()};
  }

  static void Fill(std::span<float> values, std::uint64_t what) {
    CounterRng rng(testing::TestSeed(), Purpose::kTest, what, 0);
    for (float& value : values) value = rng.Normal();
  }

 private:
  torch::nn::Module module_;
  std::vector<torch::Tensor> tensors_;
  std::optional<FlatTensors> params_;
  std::optional<Optimizer> optimizer_;
};

constexpr const char* kOptimizers[] = {"sgd", "adam", "adamw", "adagrad", "ftrl", "lars", "lamb"};

TEST(Optimizer, ThreadsDoNotChangeABit) {
  for (const char* name : kOptimizers) {
    const OptimizerOptions options{.name = name, .weight_decay = 0.1};
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const std::string one = TwoTensors(options).After(3);
    at::set_num_threads(3);
    EXPECT_EQ(TwoTensors(options).After(3), one) << name;
    at::set_num_threads(threads);
  }
}

TEST(Optimizer, WorkersThatUpdateASliceEachOfCommonMemoryGetTheBitsOfOne) {
  for (const char* name : kOptimizers) {
    const OptimizerOptions options{.name = name, .momentum = 0.9, .weight_decay = 0.1};
    for (const std::size_t workers : {1U, 2U, 3U}) {
      std::deque<TwoTensors> all;
      for (std::size_t w = 0; w < workers; ++w) all.emplace_back(options);
      std::vector<float> common(all[0].Floats());
      for (TwoTensors& one : all) {
        const bool first = &one == &all.front();
        one.MoveTo(common, first ? FlatTensors::Values::kBring : FlatTensors::Values::kTake);
      }
      for (std::uint64_t step = 0; step < 3; ++step) {
        for (std::size_t w = 0; w < workers; ++w) all[w].Step(step, {w, workers});
      }
      TwoTensors alone(options);
      EXPECT_EQ(all.back().Hash(), alone.After(3)) << name << ", " << workers;
      EXPECT_EQ(all.back().FirstOf(1), alone.FirstOf(1)) << name << ", " << workers;
    }
  }
}

TEST(Optimizer, DecayLeavesAloneWhatTheRuleSpares) {
  for (const char* name : kOptimizers) {
    OptimizerOptions options{.name = name, .weight_decay = 0.1};
    TwoTensors all(options);
    options.decay = algo::DecayRule::Parse("norm-bias").value();
    TwoTensors spared(options);
    options.weight_decay = 0;
    TwoTensors none(options);
    for (TwoTensors* one : {&all, &spared, &none}) one->After(2);
    EXPECT_EQ(spared.Values(0), all.Values(0)) << name;
    EXPECT_NE(spared.Values(1), all.Values(1)) << name;
    EXPECT_EQ(spared.Values(1), none.Values(1)) << name;
    EXPECT_NE(spared.Values(0), none.Values(0)) << name;
  }
}

// The kernels, tensor by tensor, with norms of the whole tensor.
TEST(Optimizer, LambScalesEachTensorByItsOwnNorms) {
  TwoTensors trained({.name = "lamb", .epsilon = 1e-6, .weight_decay = 0.1});
  std::vector<float> bias = trained.Values(1), gradient(5), mean(5), variance(5);
  trained.Step(0);
  TwoTensors::Fill(gradient, 2);
  kernel::LambDirection({.epsilon = 1e-6F, .weight_decay = 0.1F}, 1, bias, gradient, mean,
                        variance);
  const double ratio = kernel::LambRatio(std::sqrt(kernel::SquaredNorm(bias)),
                                         std::sqrt(kernel::SquaredNorm(gradient)));
  kernel::SgdStep({.learning_rate = static_cast<float>(0.01 * ratio)}, bias, gradient, {});
  EXPECT_EQ(trained.Values(1), bias);
}

TEST(Optimizer, FtrlKeepsSmallWeightsAtExactZeros) {
  TwoTensors trained({.name = "ftrl", .ftrl_l1 = 50, .weight_decay = 0.1});
  std::vector<float> bias = trained.Values(1), gradient(5), z(5), n(5);
  trained.Step(0);
  TwoTensors::Fill(gradient, 2);
  kernel::FtrlStep({.learning_rate = 0.01F, .l1 = 50, .l2 = 0.1F}, bias, gradient, z, n);
  EXPECT_EQ(trained.Values(1), bias);
  TwoTensors without({.name = "ftrl", .weight_decay = 0.1});
  const auto zeros = [](TwoTensors& tensors) {
    tensors.After(30);
    return std::ranges::count(tensors.Values(0), 0.0F);
  };
  EXPECT_GT(zeros(trained), 100);
  EXPECT_LT(zeros(without), 10);
}

TEST(ParameterAverage, FollowsTheParametersAndSwapsWithThem) {
  torch::nn::Module module;
  module.register_parameter("p", torch::full({2}, 1.0F));
  module.register_buffer("b", torch::full({1}, 10.0F));
  FlatTensors params = FlatTensors::OfParameters(module), buffers = FlatTensors::OfBuffers(module);
  ParameterAverage average(0.5, params, buffers);
  params.All()[0] = 3;
  buffers.All()[0] = 20;
  average.Update(1);  // the decay is 2 / 11 yet
  EXPECT_FLOAT_EQ(average.params()[0], 1 + 2 * 9.0F / 11);
  EXPECT_FLOAT_EQ(average.buffers()[0], 10 + 10 * 9.0F / 11);
  EXPECT_EQ(average.params()[1], 1.0F);
  params.All()[0] = average.params()[0] + 1;
  average.Update(1000);  // and 0.5 now
  EXPECT_FLOAT_EQ(average.params()[0], params.All()[0] - 0.5F);
  const std::string averaged = average.Hash(), plain = params.Hash();
  average.Swap();
  EXPECT_EQ(params.Hash(), averaged);
  EXPECT_EQ(average.Hash(), plain);
}

// The same run, stopped once in the middle.
Result<job::RunSummary> RunWithABreak(job::TrainConfig config, std::uint64_t stop_after) {
  RunHarness first;
  first.stop_after_checks = stop_after;
  const auto interrupted = first.Run(config);
  EXPECT_THAT(interrupted, IsOk());
  EXPECT_TRUE(interrupted->interrupted);
  config.resume = true;
  return RunHarness().Run(config);
}

TEST(Recipe, EveryOptimizerResumesToTheSameBits) {
  for (const char* name : {"adamw", "ftrl", "lars", "lamb"}) {
    const TempDir dir;
    const auto config = [&](const char* run) {
      job::TrainConfig made = SmallRun(dir / run);
      made.optimizer = name;
      made.weight_decay = 0.01;
      made.momentum = std::string(name) == "lars" ? 0.9 : 0;
      made.decay_exclude = "norm-bias";
      return made;
    };
    const auto undisturbed = RunHarness().Run(config("a"));
    const auto resumed = RunWithABreak(config("b"), 3);
    ASSERT_THAT(undisturbed, IsOk());
    ASSERT_THAT(resumed, IsOk());
    EXPECT_EQ(resumed->params_hash, undisturbed->params_hash) << name;
  }
}

TEST(Recipe, LabelSmoothingChangesWhatIsLearnt) {
  const TempDir dir;
  job::TrainConfig smooth = SmallRun(dir / "smooth");
  smooth.label_smoothing = 0.1;
  EXPECT_NE(RunHarness().Run(smooth)->params_hash,
            RunHarness().Run(SmallRun(dir / "plain"))->params_hash);
}

TEST(Recipe, TheLossOfAMixedBatchIsThatOfBothLabels) {
  const Classification objective(3);
  const torch::Tensor logits = torch::tensor({{1.0F, 2.0F, 3.0F}, {0.5F, -1.0F, 0.0F}});
  const torch::Tensor labels = torch::tensor({2, 0}, torch::kInt64);
  const torch::Tensor others = labels.flip(0);
  const auto plain = [&](const torch::Tensor& of) {
    return objective.Compute({logits}, {logits, of}).sum.item<double>();
  };
  const Loss mixed = objective.Compute({logits}, {logits, labels, others, torch::full({2}, 0.25F)});
  EXPECT_NEAR(mixed.sum.item<double>(), 0.25 * plain(labels) + 0.75 * plain(others), 1e-5);
}

// A network whose outputs are its inputs.
class Through final : public Network {
 public:
  Tensors Forward(const Tensors& batch, const ForwardContext&) override { return {batch[0]}; }
};

TEST(Recipe, OutputsThatAreNoNumbersAreNeverRight) {
  const Classification objective(7);
  torch::Tensor logits = torch::zeros({2, 7});
  logits[0][3] = 1.0F;
  logits[1].fill_(std::nanf(""));
  Through network;
  std::vector<double> sums(objective.SumCount());
  std::vector<algo::AucAccumulator> aucs;
  objective.Count(network, {logits, torch::tensor({3, 3}, torch::kInt64)}, {sums, aucs});
  for (const Metric& metric : objective.Metrics(sums, aucs)) {
    if (metric.name == "loss") continue;
    EXPECT_EQ(metric.value, 0.5) << metric.name;
  }
}

// Knows one label a sample only.
class OneLabel final : public Objective {
 public:
  Loss Compute(const Tensors& outputs, const Tensors& batch) const override {
    return plain_.Compute(outputs, {batch[0], batch[1]});
  }
  std::size_t SumCount() const override { return plain_.SumCount(); }
  void Count(Network& network, const Tensors& batch, EvalCounts counts) const override {
    plain_.Count(network, batch, counts);
  }
  std::vector<Metric> Metrics(std::span<const double> sums,
                              std::span<const algo::AucAccumulator> aucs) const override {
    return plain_.Metrics(sums, aucs);
  }

 private:
  Classification plain_{10};
};

TEST(Recipe, MixUpIsRefusedByObjectivesOfOneLabel) {
  const testing::TempDir dir;
  disk::PosixFileSystem posix;
  const auto open = [&](const char* run, double mixup) {
    job::TrainConfig config = SmallRun(dir / run);
    config.mixup = mixup;
    return TrainingRun::Open(config, {.clock = SystemClock(),
                                      .file_system = posix,
                                      .stop_signal = [] { return 0; },
                                      .build_model =
                                          [](const job::TrainConfig& wanted) {
                                            BuiltModel model = BuildModel(wanted).value();
                                            model.objective = std::make_shared<OneLabel>();
                                            return Result<BuiltModel>(model);
                                          }})
        .status();
  };
  EXPECT_THAT(open("plain", 0), IsOk());
  EXPECT_THAT(open("mixed", 0.2),
              StatusIs(Code::kInvalidArgument, HasSubstr("--mixup: the objective of vgg16-small")));
}

TEST(Recipe, MixedImagesAreTrainedOnAndResumeToTheSameBits) {
  const TempDir dir;
  const auto config = [&](const char* run, double mixup) {
    job::TrainConfig made = SmallRun(dir / run);
    made.mixup = mixup;
    return made;
  };
  const auto mixed = RunHarness().Run(config("a", 0.4));
  ASSERT_THAT(mixed, IsOk());
  EXPECT_NE(mixed->params_hash, RunHarness().Run(config("plain", 0))->params_hash);
  EXPECT_EQ(mixed->params_hash, RunWithABreak(config("b", 0.4), 3)->params_hash);
}

TEST(Recipe, TheAverageIsSavedAndChangesNoParameter) {
  const TempDir dir;
  const auto config = [&](const char* run, double ema) {
    job::TrainConfig made = SmallRun(dir / run);
    made.ema = ema;
    return made;
  };
  const auto plain = RunHarness().Run(config("plain", 0));
  const auto averaged = RunHarness().Run(config("a", 0.9));
  ASSERT_THAT(averaged, IsOk());
  EXPECT_EQ(plain->ema_hash, "");
  EXPECT_EQ(averaged->params_hash, plain->params_hash);
  EXPECT_NE(averaged->ema_hash, averaged->params_hash);
  EXPECT_NE(averaged->eval_loss, plain->eval_loss);  // the average was evaluated
  const auto resumed = RunWithABreak(config("b", 0.9), 3);
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->ema_hash, averaged->ema_hash);
  EXPECT_EQ(resumed->eval_loss, averaged->eval_loss);
  EXPECT_TRUE(std::filesystem::exists(dir / "a/checkpoints/gen-0000000000000001/ema.safetensors"));
}

TEST(Recipe, APowerOfTwoAsLossScaleChangesNoBit) {
  const TempDir dir;
  job::TrainConfig scaled = SmallRun(dir / "scaled");
  scaled.loss_scale = "1024";
  EXPECT_EQ(RunHarness().Run(scaled)->params_hash,
            RunHarness().Run(SmallRun(dir / "plain"))->params_hash);
}

TEST(Recipe, ADynamicLossScaleShrinksInsteadOfGivingUp) {
  const TempDir dir;
  job::TrainConfig config = SmallRun(dir / "run");
  config.loss_scale = "dynamic";
  config.nan_policy = "stop";
  config.checkpoint_every = 1;
  RunHarness harness;
  harness.gradient_fault = [](Step step, std::size_t tensor, std::span<float> gradient) {
    if (step.value() >= 2 && step.value() < 4 && tensor == 0) {
      gradient[0] = std::numeric_limits<float>::infinity();
    }
  };
  const auto summary = harness.Run(config);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->skipped_steps, 2U);
  EXPECT_EQ(summary->steps, 6U);
  const std::string events = ReadFile(dir / "run/events.jsonl");
  for (const char* scale : {"65536", "32768", "16384"}) {
    EXPECT_THAT(events, HasSubstr(fmt::format("\"loss_scale\": {}", scale)));
  }
  // Goes on with what the checkpoint says.
  config.resume = true;
  config.steps = 7;
  ASSERT_THAT(RunHarness().Run(config), IsOk());
  const std::string manifest = ReadFile(dir / "run/checkpoints/gen-0000000000000007/MANIFEST.json");
  EXPECT_THAT(manifest, HasSubstr("16384"));
  EXPECT_THAT(manifest, HasSubstr("loss_scale_good_steps"));
}

// Ten samples: accuracy can rise ten times at most, so it stops long before the end.
job::TrainConfig Impatient(const std::string& run) {
  job::TrainConfig config = SmallRun(run);
  config.steps = 40;
  config.eval_every = 1;
  config.checkpoint_every = 1;
  config.keep = 2;
  config.keep_best = true;
  config.patience = 3;
  return config;
}

TEST(Recipe, PatienceEndsTheRunAndTheBestCheckpointStays) {
  const TempDir dir;
  const auto summary = RunHarness().Run(Impatient(dir / "run"));
  ASSERT_THAT(summary, IsOk());
  EXPECT_TRUE(summary->stopped_early);
  EXPECT_FALSE(summary->interrupted);
  EXPECT_EQ(summary->best_metric, "accuracy");
  EXPECT_EQ(summary->steps, summary->best_step + 3);
  const std::string best = fmt::format("gen-{:016}", summary->best_step);
  EXPECT_EQ(ReadFile(dir / "run/checkpoints/BEST"), best + "\n");
  EXPECT_TRUE(std::filesystem::exists(dir / ("run/checkpoints/" + best + "/MANIFEST.json")));
  EXPECT_THAT(ReadFile(dir / "run/events.jsonl"), HasSubstr("\"stopped_early\": true"));
}

TEST(Recipe, AResumedRunGoesOnCountingEvaluations) {
  const TempDir dir;
  const auto undisturbed = RunHarness().Run(Impatient(dir / "a"));
  const auto resumed = RunWithABreak(Impatient(dir / "b"), 12);
  ASSERT_THAT(undisturbed, IsOk());
  ASSERT_THAT(resumed, IsOk());
  EXPECT_TRUE(resumed->stopped_early);
  EXPECT_EQ(resumed->steps, undisturbed->steps);
  EXPECT_EQ(resumed->best_step, undisturbed->best_step);
  EXPECT_EQ(resumed->params_hash, undisturbed->params_hash);

  job::TrainConfig again = Impatient(dir / "a");
  again.resume = true;
  const auto over = RunHarness().Run(again);
  ASSERT_THAT(over, IsOk());
  EXPECT_EQ(over->steps, undisturbed->steps);
  EXPECT_TRUE(over->stopped_early);
  again.patience = 5;
  const auto more = RunHarness().Run(again);
  ASSERT_THAT(more, IsOk());
  EXPECT_GT(more->steps, undisturbed->steps);
}

}  // namespace
}  // namespace paceline::train

#include "fused/trainer_loop.h"

#include <map>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "base/thread.h"
#include "fused/evaluation.h"
#include "job/machine.h"
#include "job/recipe.h"
#include "kernel/hash.h"
#include "model/catalog.h"
#include "ps/local_store.h"
#include "ps/server_core.h"
#include "testing/sanitized.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::fused {
namespace {

using testing::IsOk;

job::TrainConfig Configured(const std::string& model, const std::string& mode,
                            std::int64_t trainers) {
  job::TrainConfig config;
  config.model = model;
  config.seed = testing::TestSeed();
  config.shards = trainers;
  config.train_samples = 8000;
  const model::ModelCard& card = **model::FindModel(model);
  if (card.family != model::Family::kWords) config.eval_samples = 4000;
  EXPECT_THAT(job::Resolve(config, card, 1), IsOk());
  // How trainers are started is of no concern here.
  config.workers = trainers;
  config.strategy = "ps";
  config.mode = mode;
  return config;
}

// A server in memory, and trainers as threads.
class Cluster {
 public:
  explicit Cluster(const job::TrainConfig& config)
      : config_(config),
        trainers_(static_cast<std::uint64_t>(config.workers)),
        model_(MakeModel(config).value()),
        spec_(DescribeJob(config, model_, trainers_).value()),
        core_(ps::ServerCore::Open({}).value()),
        store_(*core_) {
    EXPECT_THAT(core_->Configure(spec_), IsOk());
    std::vector<float> dense(spec_.DenseFloats());
    model_.model->InitialiseDense(config.seed, dense);
    EXPECT_THAT(store_.Initialise(dense), IsOk());
  }

  std::unique_ptr<TrainerLoop> Open(sparse::FusedModel& model, std::uint64_t rank,
                                    bool pull_ahead = false) {
    const Mode mode = ModeOf(config_).value();
    const algo::BatchPlan plan = PlanOf(config_, model.dataset_size()).value();
    const algo::TrainerShare share{.plan = plan,
                                   .rank = rank,
                                   .world = trainers_,
                                   .steps_per_round = StepsPerRound(config_, mode),
                                   .lease = rank};
    auto loop = TrainerLoop::Open(model, spec_, store_,
                                  {.mode = mode,
                                   .share = share,
                                   .schedule = job::ScheduleOf(config_, plan).value(),
                                   .trainer = rank,
                                   .trainers = trainers_,
                                   .staleness = config_.staleness,
                                   .pull_ahead = pull_ahead},
                                  SystemClock());
    EXPECT_THAT(loop, IsOk());
    return std::move(loop).value();
  }

  // Trains with all trainers to the end. Returns the samples that each computed.
  std::vector<std::uint64_t> Train(bool pull_ahead = false) {
    std::vector<std::uint64_t> samples(trainers_);
    std::vector<std::jthread> threads;
    threads.reserve(trainers_);
    for (std::uint64_t rank = 0; rank < trainers_; ++rank) {
      threads.push_back(StartThread("trainer", [this, rank, pull_ahead, &samples] {
        const ModelWithData own = MakeModel(config_).value();  // scratch of its own
        const auto loop = Open(*own.model, rank, pull_ahead);
        samples[rank] = RunToTheEnd(*loop);
      }));
    }
    threads.clear();
    return samples;
  }

  std::uint64_t RunToTheEnd(TrainerLoop& loop) {
    std::uint64_t samples = 0;
    while (!loop.Done()) {
      const auto outcome = loop.Next();
      EXPECT_THAT(outcome, IsOk());
      if (!outcome.ok()) {
        core_->Interrupt();  // or the others would wait for this one
        return samples;
      }
      samples += outcome->samples;
    }
    return samples;
  }

  Evaluation Judge() { return Evaluate(model_, store_, {}).value(); }

  std::string DenseHash() {
    std::vector<float> dense(spec_.DenseFloats());
    ps::PullRequest request{.touch = ps::Touch::kPeek, .rows = {}, .dense = dense};
    EXPECT_THAT(store_.Pull(request), IsOk());
    kernel::Hasher hasher;
    hasher.Update(std::as_bytes(std::span(dense)));
    return hasher.Hex();
  }

  const ModelWithData& model() const { return model_; }

 private:
  job::TrainConfig config_;
  std::uint64_t trainers_;
  ModelWithData model_;
  ps::JobSpec spec_;
  std::unique_ptr<ps::ServerCore> core_;
  ps::LocalStore store_;
};

job::TrainConfig Clicks(const std::string& mode, std::int64_t trainers) {
  job::TrainConfig config = Configured("ctr-dnn-small", mode, trainers);
  config.batch = 50;
  config.geo_steps = 10;
  config.merge = 2;
  return config;
}

constexpr std::uint64_t kEnoughClicks = 150'000;

// Two trainers in turns, so that the same thing happens every time.
double AucInTurns(const job::TrainConfig& config) {
  Cluster cluster(config);
  const ModelWithData other = MakeModel(config).value();
  const auto first = cluster.Open(*cluster.model().model, 0);
  const auto second = cluster.Open(*other.model, 1);
  while (!second->Done()) {
    EXPECT_THAT(first->Next(), IsOk());
    EXPECT_THAT(second->Next(), IsOk());
    if (::testing::Test::HasFailure()) return 0;
  }
  return cluster.Judge().auc.value_or(0);
}

// After so few samples the gap to one trainer depends on the seed, by up to 0.01 either way (over
// seeds 1 to 10 half-async -0.002 on average, geo -0.004, the others 0): what a mode costs is the
// mean over several. What one trainer comes to is computed once.
constexpr std::uint64_t kSeeds = 4;
double LocalAuc(std::uint64_t seed) {
  static std::map<std::uint64_t, double> known;
  const auto [auc, is_new] = known.try_emplace(seed);
  if (is_new) {
    job::TrainConfig config = Clicks("sync", 1);
    config.seed = seed;
    config.train_samples = kEnoughClicks;
    Cluster alone(config);
    alone.Train();
    auc->second = alone.Judge().auc.value_or(0);
  }
  return auc->second;
}

constexpr double kLearnt = 0.7;  // one trainer comes to 0.82; without learning it is 0.5

class ModesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ModesTest, TwoTrainersLearn) {
  job::TrainConfig config = Clicks(GetParam(), 2);
  config.train_samples = kEnoughClicks;
  Cluster cluster(config);
  const auto samples = cluster.Train();
  EXPECT_EQ(samples[0] + samples[1], config.train_samples);
  const double reached = cluster.Judge().auc.value_or(0);
  RecordProperty("auc", std::to_string(reached));
  // Who comes first differs from run to run; how close they come is TurnsTest's to say.
  EXPECT_GT(reached, kLearnt);
}

// Without sync, where each waits for the other.
class TurnsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TurnsTest, TrainersLearnAsMuchAsOne) {
  if (testing::kSanitized) GTEST_SKIP() << "skipped: how well is judged without sanitizers";
  double gap = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    job::TrainConfig config = Clicks(GetParam(), 2);
    config.seed = seed;
    config.train_samples = kEnoughClicks;
    const double one = AucInTurns(config) - LocalAuc(seed);
    RecordProperty("gap" + std::to_string(seed), std::to_string(one));
    gap += one / static_cast<double>(kSeeds);
  }
  EXPECT_NEAR(gap, 0, 0.005);
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& mode) {
  std::string name = mode.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ModesTest,
                         ::testing::Values("sync", "async", "half-async", "geo", "ssp"), NameOf);
INSTANTIATE_TEST_SUITE_P(All, TurnsTest, ::testing::Values("async", "half-async", "geo", "ssp"),
                         NameOf);

// Where nothing can be pulled ahead, it changes nothing; elsewhere every sample still counts once.
TEST_P(ModesTest, PullingAheadLearnsToo) {
  job::TrainConfig config = Clicks(GetParam(), 2);
  config.train_samples = kEnoughClicks;
  Cluster cluster(config);
  const auto samples = cluster.Train(true);
  EXPECT_EQ(samples[0] + samples[1], config.train_samples);
  const double reached = cluster.Judge().auc.value_or(0);
  RecordProperty("auc", std::to_string(reached));
  EXPECT_GT(reached, kLearnt);
}

TEST(Sync, HasTheBitsOfOneTrainerWithAsManyShards) {
  for (const std::int64_t trainers : {2, 3}) {
    job::TrainConfig config = Clicks("sync", trainers);
    config.train_samples = 1234;  // the last step is short
    Cluster several(config);
    several.Train();
    config.workers = 1;
    Cluster alone(config);
    alone.Train();
    EXPECT_EQ(several.DenseHash(), alone.DenseHash());
    EXPECT_EQ(several.Judge().auc, alone.Judge().auc);
  }
}

TEST_P(ModesTest, ATrainerThatComesBackGoesOnWhereTheServerStands) {
  const job::TrainConfig config = Clicks(GetParam(), 1);
  Cluster cluster(config);
  std::uint64_t before = 0, repeated = 0;
  {
    const auto first = cluster.Open(*cluster.model().model, 0);
    while (first->steps() < 25) {
      const auto outcome = first->Next();
      ASSERT_THAT(outcome, IsOk());
      before += outcome->samples;
    }
    // A geo trainer dies between exchanges: 5 steps of 25 are known to nobody.
    repeated = GetParam() == "geo" ? 5 * static_cast<std::uint64_t>(config.batch) : 0;
  }
  const auto second = cluster.Open(*cluster.model().model, 0);
  EXPECT_GE(second->steps(), 20U);
  EXPECT_EQ(before - repeated + cluster.RunToTheEnd(*second), config.train_samples);
}

TEST(Simnet, TwoTrainersLearnToOrderTitles) {
  job::TrainConfig config = Configured("simnet-bow-small", "async", 2);
  config.train_samples = 16'000;
  config.eval_samples = 1000;
  Cluster cluster(config);
  const double before = cluster.Judge().accuracy.value_or(1);
  cluster.Train();
  const Evaluation after = cluster.Judge();
  EXPECT_LT(before, 0.7);
  EXPECT_GT(after.accuracy.value_or(0), 0.9);
  EXPECT_GT(after.pair_ratio.value_or(0), 9);
}

TEST(Word2Vec, TwoTrainersLearnAnalogies) {
  for (const char* mode : {"sync", "async", "geo"}) {
    job::TrainConfig config = Configured("word2vec-small", mode, 2);
    config.seed = 1;
    config.train_samples = 5000;
    config.epochs = 3;
    config.geo_steps = 20;
    Cluster cluster(config);
    const double before = cluster.Judge().accuracy.value_or(1);
    cluster.Train();
    const Evaluation after = cluster.Judge();
    EXPECT_LT(before, 0.1);
    EXPECT_GT(after.accuracy.value_or(0), 0.5) << mode;
    EXPECT_GT(after.similarity.value_or(0), 0.3) << mode;
  }
}

}  // namespace
}  // namespace paceline::fused

#include "fused/training_run.h"

#include <thread>

#include <gmock/gmock.h>

#include "base/thread.h"
#include "model/catalog.h"
#include "ps/local_store.h"
#include "ps/server_core.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::fused {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using testing::TempDir;

class TrainingRunTest : public ::testing::Test {
 protected:
  job::TrainConfig Config(const std::string& model) const {
    job::TrainConfig config;
    config.model = model;
    config.seed = testing::TestSeed();
    config.train_samples = 3000;
    config.run = folder_ / "run";
    const model::ModelCard& card = **model::FindModel(model);
    if (card.family != model::Family::kWords) config.eval_samples = 1000;
    EXPECT_THAT(job::Resolve(config, card, 1), IsOk());
    return config;
  }

  // Stops when it is asked for the `stop_after`th time.
  Result<job::RunSummary> Train(const job::TrainConfig& config,
                                std::uint64_t stop_after = UINT64_MAX) {
    std::uint64_t asked = 0;
    return TrainLocally(config, {.clock = SystemClock(),
                                 .stop_signal = [&] { return ++asked > stop_after ? 15 : 0; },
                                 .config_text = ToToml(config),
                                 .group = ""});
  }

  TempDir folder_{TempDir::Place::kMemory};
};

TEST_F(TrainingRunTest, LeavesTheRecordsOfARun) {
  const job::TrainConfig config = Config("ctr-dnn-small");
  const auto summary = Train(config);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->steps, 30U);
  EXPECT_EQ(summary->samples, 3000U);
  EXPECT_TRUE(summary->evaluated);
  EXPECT_GT(summary->auc, 0.6);
  EXPECT_GT(summary->best_auc, summary->auc - 0.05);
  EXPECT_EQ(summary->params_hash.size(), 32U);
  EXPECT_FALSE(summary->interrupted);
  const std::string events = testing::ReadFile(folder_ / "run/events.jsonl");
  for (const char* type : {"start", "step", "evaluate", "checkpoint", "end"}) {
    EXPECT_THAT(events, HasSubstr(std::string(R"("type": ")") + type + "\""));
  }
  EXPECT_THAT(testing::ReadFile(folder_ / "run/result.json"), HasSubstr(R"("best_auc": 0.)"));
  EXPECT_THAT(testing::ReadFile(folder_ / "run/config.toml"), HasSubstr("ctr-dnn-small"));
}

TEST_F(TrainingRunTest, AResumedRunEndsWithTheSameBits) {
  job::TrainConfig config = Config("ctr-dnn-small");
  const auto whole = Train(config);
  ASSERT_THAT(whole, IsOk());
  config.run = folder_ / "cut";
  const auto first = Train(config, 40);
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE(first->interrupted);
  EXPECT_GT(first->steps, 0U);
  config.resume = true;
  const auto second = Train(config);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->resumed_from_step, first->steps);
  EXPECT_EQ(second->samples, whole->samples);
  EXPECT_EQ(second->params_hash, whole->params_hash);
  EXPECT_EQ(second->auc, whole->auc);
}

TEST_F(TrainingRunTest, RowsHaveAVelocityThatCheckpointsKeep) {
  job::TrainConfig config = Config("ctr-dnn-small");
  config.table_optimizer = "sgd";
  const auto without = Train(config);
  config.table_optimizer = "momentum";
  config.run = folder_ / "momentum";
  const auto with = Train(config);
  ASSERT_THAT(without, IsOk());
  ASSERT_THAT(with, IsOk());
  EXPECT_NE(with->params_hash, without->params_hash);
  config.run = folder_ / "cut";
  const auto first = Train(config, 40);
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE(first->interrupted);
  config.resume = true;
  const auto second = Train(config);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->params_hash, with->params_hash);
  EXPECT_EQ(second->auc, with->auc);
}

TEST_F(TrainingRunTest, DoesNotMixRuns) {
  job::TrainConfig config = Config("simnet-bow-small");
  config.steps = 3;
  config.epochs = 0;
  ASSERT_THAT(Train(config), IsOk());
  EXPECT_THAT(Train(config), StatusIs(Code::kInvalidArgument, HasSubstr("--resume")));
  config.resume = true;
  config.lr *= 2;
  EXPECT_THAT(Train(config), StatusIs(Code::kMismatch, HasSubstr("lr")));
}

TEST_F(TrainingRunTest, EndsWhenTheLossStaysInfinite) {
  job::TrainConfig config = Config("ctr-dnn-small");
  config.optimizer = "sgd";
  config.lr = 1e30;
  config.nan_policy = "stop";
  EXPECT_THAT(Train(config), StatusIs(Code::kNotFinite, HasSubstr("try a smaller --lr")));
}

TEST_F(TrainingRunTest, WordsHaveAnalogiesAndNoDenseTensors) {
  job::TrainConfig config = Config("word2vec-small");
  config.train_samples = 200;
  const auto summary = Train(config);
  ASSERT_THAT(summary, IsOk());
  EXPECT_GE(summary->accuracy, 0.0);
  EXPECT_EQ(summary->params_hash, "");
  EXPECT_THAT(summary->Text(), AllOf(HasSubstr("similarity"), HasSubstr("top4")));
}

// The first trainer speaks for all: its last evaluation waits for the others.
TEST_F(TrainingRunTest, TwoTrainersAreOneRun) {
  for (const char* mode : {"sync", "async"}) {
    job::TrainConfig config = Config("ctr-dnn-small");
    config.strategy = "ps";
    config.mode = mode;
    config.workers = config.shards = 2;
    config.run = folder_ / mode;
    const auto core = ps::ServerCore::Open({}).value();
    const auto connect = [&](const ps::JobSpec& spec) -> Result<std::unique_ptr<ps::Store>> {
      PACELINE_TRY(core->Configure(spec));
      return std::unique_ptr<ps::Store>(std::make_unique<ps::LocalStore>(*core));
    };
    const RunEnvironment environment{.clock = SystemClock(),
                                     .stop_signal = [] { return 0; },
                                     .config_text = ToToml(config),
                                     .group = "2 threads"};
    std::jthread other = StartThread("trainer 1", [&] {
      EXPECT_THAT(TrainWithServers(config, environment,
                                   {.place = {.rank = 1, .world = 2}, .connect = connect}),
                  IsOk());
    });
    const auto first = TrainWithServers(config, environment,
                                        {.place = {.rank = 0, .world = 2}, .connect = connect});
    ASSERT_THAT(first, IsOk());
    ASSERT_TRUE(*first);
    const job::RunSummary& summary = **first;
    EXPECT_EQ(summary.mode, mode);
    EXPECT_EQ(summary.steps, 15U);
    EXPECT_EQ(summary.samples, 3000U);
    EXPECT_TRUE(summary.evaluated);
    EXPECT_EQ(core->StatusNow().pushes, 30U);
  }
}

}  // namespace
}  // namespace paceline::fused

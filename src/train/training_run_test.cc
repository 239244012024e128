// Whole runs in one process: stop, resume, damage, mismatch. Real files, a small model.
#include "train/training_run.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/clock.h"
#include "disk/faulty_file_system.h"
#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReadFile;
using testing::StatusIs;
using testing::TempDir;

job::TrainConfig Config(const std::string& run) {
  job::TrainConfig config;
  config.model = "vgg16-small";
  config.batch = 4;
  config.steps = 6;
  config.train_samples = 20;  // so that a run crosses an epoch
  config.eval_samples = 10;
  config.threads = 1;
  config.run = run;
  EXPECT_THAT(Resolve(config, *model::FindModel(config.model).value(), 1), IsOk());
  return config;
}

struct Harness {
  disk::PosixFileSystem posix;
  std::optional<disk::FaultyFileSystem> faulty;
  GradientFault gradient_fault;
  std::uint64_t stop_after_checks = 1'000'000;
  std::uint64_t checks = 0;

  Result<job::RunSummary> Run(const job::TrainConfig& config) {
    auto& fs = faulty ? static_cast<disk::FileSystem&>(*faulty) : posix;
    PACELINE_ASSIGN(
        auto run,
        TrainingRun::Open(config,
                          {.clock = SystemClock(),
                           .file_system = fs,
                           .stop_signal = [this] { return ++checks > stop_after_checks ? 15 : 0; },
                           .config_text = ToToml(config),
                           .gradient_fault = gradient_fault}));
    return run->Run();
  }
};

std::string UndisturbedHash() {
  const TempDir dir;
  return Harness().Run(Config(dir / "run"))->params_hash;
}

TEST(TrainingRun, RecordsWhatItDid) {
  const TempDir dir;
  const auto summary = Harness().Run(Config(dir / "run"));
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->steps, 6U);
  EXPECT_EQ(summary->samples, 24U);
  EXPECT_TRUE(summary->evaluated);
  EXPECT_FALSE(summary->interrupted);
  EXPECT_THAT(ReadFile(dir / "run/events.jsonl"), HasSubstr("\"type\": \"step\""));
  EXPECT_THAT(ReadFile(dir / "run/config.toml"), HasSubstr("batch = 4"));
  EXPECT_THAT(ReadFile(dir / "run/result.json"), HasSubstr(summary->params_hash));
}

TEST(TrainingRun, InterruptedAndResumedEqualsUndisturbed) {
  const std::string expected = UndisturbedHash();
  for (const std::uint64_t stop_after : {1U, 3U, 5U}) {
    const TempDir dir;
    Harness first;
    first.stop_after_checks = stop_after;
    const auto interrupted = first.Run(Config(dir / "run"));
    ASSERT_THAT(interrupted, IsOk());
    EXPECT_TRUE(interrupted->interrupted);
    job::TrainConfig config = Config(dir / "run");
    config.resume = true;
    const auto resumed = Harness().Run(config);
    ASSERT_THAT(resumed, IsOk());
    EXPECT_EQ(resumed->resumed_from_step, interrupted->steps);
    EXPECT_EQ(resumed->params_hash, expected) << "stopped at step " << interrupted->steps;
  }
}

TEST(TrainingRun, ADamagedCheckpointFallsBackAndStillEndsTheSame) {
  const TempDir dir;
  job::TrainConfig config = Config(dir / "run");
  config.checkpoint_every = 2;
  ASSERT_THAT(Harness().Run(config), IsOk());
  const std::string newest = dir / "run/checkpoints/gen-0000000000000003/model.safetensors";
  std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('\x55');
  file.close();
  ASSERT_TRUE(file.good());
  config.resume = true;
  const auto resumed = Harness().Run(config);
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->resumed_from_step, 4U);
  EXPECT_EQ(resumed->params_hash, UndisturbedHash());
  EXPECT_THAT(ReadFile(dir / "run/events.jsonl"), HasSubstr("gen-0000000000000003"));
}

TEST(TrainingRun, AnotherConfigurationIsRefusedWithTheDifference) {
  const TempDir dir;
  ASSERT_THAT(Harness().Run(Config(dir / "run")), IsOk());
  job::TrainConfig config = Config(dir / "run");
  config.resume = true;
  config.batch = 2;
  EXPECT_THAT(Harness().Run(config),
              StatusIs(Code::kMismatch, HasSubstr("batch: checkpoint 4, now 2")));
}

TEST(TrainingRun, AUsedDirectoryNeedsResume) {
  const TempDir dir;
  ASSERT_THAT(Harness().Run(Config(dir / "run")), IsOk());
  EXPECT_THAT(Harness().Run(Config(dir / "run")),
              StatusIs(Code::kInvalidArgument, HasSubstr("--resume")));
}

TEST(TrainingRun, ResumingBeforeTheFirstCheckpointStartsAtTheBeginning) {
  const TempDir dir;
  job::TrainConfig config = Config(dir / "run");
  config.resume = true;
  const auto summary = Harness().Run(config);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->params_hash, UndisturbedHash());
}

TEST(TrainingRun, NanStepsAreSkippedCountedAndLimited) {
  const TempDir dir;
  Harness harness;
  harness.gradient_fault = PoisonAt(Step(2));
  const auto summary = harness.Run(Config(dir / "skip"));
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->skipped_steps, 1U);

  job::TrainConfig stop = Config(dir / "stop");
  stop.nan_policy = "stop";
  EXPECT_THAT(harness.Run(stop), StatusIs(Code::kNotFinite, HasSubstr("step 2")));
  // The state before the bad step was saved.
  EXPECT_TRUE(std::filesystem::exists(dir / "stop/checkpoints/gen-0000000000000001"));
}

TEST(TrainingRun, AFailedCheckpointDoesNotEndTheTrainingUnlessRequired) {
  for (const bool required : {false, true}) {
    const TempDir dir;
    Harness harness;
    harness.faulty.emplace(harness.posix, disk::ParseFaultPlan("fail=3:ENOSPC").value());
    job::TrainConfig config = Config(dir / "run");
    config.checkpoint_every = 2;
    config.checkpoint_required = required;
    const auto summary = harness.Run(config);
    if (required) {
      EXPECT_THAT(summary, StatusIs(Code::kDisk, HasSubstr("No space left")));
    } else {
      ASSERT_THAT(summary, IsOk());
      EXPECT_EQ(summary->checkpoint_failures, 1U);
      EXPECT_EQ(summary->params_hash, UndisturbedHash());
    }
  }
}

TEST(TrainingRun, TheFinalCheckpointMustBeWritten) {
  const TempDir dir;
  Harness harness;
  harness.faulty.emplace(harness.posix, disk::ParseFaultPlan("fail-from=1:ENOSPC").value());
  EXPECT_THAT(harness.Run(Config(dir / "run")),
              StatusIs(Code::kDisk, HasSubstr("final checkpoint")));
}

}  // namespace
}  // namespace paceline::train

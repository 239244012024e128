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
#include "train/small_run_test_util.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReadFile;
using testing::StatusIs;
using testing::TempDir;

std::string UndisturbedHash() {
  const TempDir dir;
  return RunHarness().Run(SmallRun(dir / "run"))->params_hash;
}

TEST(TrainingRun, RecordsWhatItDid) {
  const TempDir dir;
  const auto summary = RunHarness().Run(SmallRun(dir / "run"));
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
    RunHarness first;
    first.stop_after_checks = stop_after;
    const auto interrupted = first.Run(SmallRun(dir / "run"));
    ASSERT_THAT(interrupted, IsOk());
    EXPECT_TRUE(interrupted->interrupted);
    job::TrainConfig config = SmallRun(dir / "run");
    config.resume = true;
    const auto resumed = RunHarness().Run(config);
    ASSERT_THAT(resumed, IsOk());
    EXPECT_EQ(resumed->resumed_from_step, interrupted->steps);
    EXPECT_EQ(resumed->params_hash, expected) << "stopped at step " << interrupted->steps;
  }
}

TEST(TrainingRun, ADamagedCheckpointFallsBackAndStillEndsTheSame) {
  const TempDir dir;
  job::TrainConfig config = SmallRun(dir / "run");
  config.checkpoint_every = 2;
  ASSERT_THAT(RunHarness().Run(config), IsOk());
  const std::string newest = dir / "run/checkpoints/gen-0000000000000003/model.safetensors";
  std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('\x55');
  file.close();
  ASSERT_TRUE(file.good());
  config.resume = true;
  const auto resumed = RunHarness().Run(config);
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->resumed_from_step, 4U);
  EXPECT_EQ(resumed->params_hash, UndisturbedHash());
  EXPECT_THAT(ReadFile(dir / "run/events.jsonl"), HasSubstr("gen-0000000000000003"));
}

TEST(TrainingRun, AnotherConfigurationIsRefusedWithTheDifference) {
  const TempDir dir;
  ASSERT_THAT(RunHarness().Run(SmallRun(dir / "run")), IsOk());
  job::TrainConfig config = SmallRun(dir / "run");
  config.resume = true;
  config.batch = 2;
  EXPECT_THAT(RunHarness().Run(config),
              StatusIs(Code::kMismatch, HasSubstr("batch: checkpoint 4, now 2")));
}

TEST(TrainingRun, AUsedDirectoryNeedsResume) {
  const TempDir dir;
  ASSERT_THAT(RunHarness().Run(SmallRun(dir / "run")), IsOk());
  EXPECT_THAT(RunHarness().Run(SmallRun(dir / "run")),
              StatusIs(Code::kInvalidArgument, HasSubstr("--resume")));
}

TEST(TrainingRun, ResumingBeforeTheFirstCheckpointStartsAtTheBeginning) {
  const TempDir dir;
  job::TrainConfig config = SmallRun(dir / "run");
  config.resume = true;
  const auto summary = RunHarness().Run(config);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->params_hash, UndisturbedHash());
}

TEST(TrainingRun, NanStepsAreSkippedCountedAndLimited) {
  const TempDir dir;
  RunHarness harness;
  harness.gradient_fault = PoisonAt(Step(2));
  const auto summary = harness.Run(SmallRun(dir / "skip"));
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->skipped_steps, 1U);

  job::TrainConfig stop = SmallRun(dir / "stop");
  stop.nan_policy = "stop";
  EXPECT_THAT(harness.Run(stop), StatusIs(Code::kNotFinite, HasSubstr("step 2")));
  // The state before the bad step was saved.
  EXPECT_TRUE(std::filesystem::exists(dir / "stop/checkpoints/gen-0000000000000001"));
}

TEST(TrainingRun, AFailedCheckpointDoesNotEndTheTrainingUnlessRequired) {
  for (const bool required : {false, true}) {
    const TempDir dir;
    RunHarness harness;
    harness.faulty.emplace(harness.posix, disk::ParseFaultPlan("fail=3:ENOSPC").value());
    job::TrainConfig config = SmallRun(dir / "run");
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
  RunHarness harness;
  harness.faulty.emplace(harness.posix, disk::ParseFaultPlan("fail-from=1:ENOSPC").value());
  EXPECT_THAT(harness.Run(SmallRun(dir / "run")),
              StatusIs(Code::kDisk, HasSubstr("final checkpoint")));
}

}  // namespace
}  // namespace paceline::train

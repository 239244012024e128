// Progress line, phases, run directory and event log.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <semaphore>

#include <gmock/gmock.h>

#include "base/cpu.h"
#include "job/event_log.h"
#include "job/phases.h"
#include "job/progress.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "job/worker_environment.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReadFile;
using testing::StatusIs;
using testing::TempDir;

const ProgressState kState{.model = "vgg16",
                           .step = 21,
                           .total_steps = 50,
                           .epoch = 0.054,
                           .loss = 2.1034,
                           .accuracy = 0.312,
                           .samples_per_second = 30.12,
                           .seconds_left = 83};

TEST(RenderProgress, ShowsEverythingAUserAsksFor) {
  EXPECT_EQ(
      RenderProgress(kState, 160),
      "vgg16:  42%|#############                 | 21/50 [epoch 0.05, loss 2.1034, acc 31.2 %, "
      "30.1 samples/s, ETA 1:23]");
}

TEST(RenderProgress, NeverExceedsTheWidth) {
  for (const int width : {0, 1, 10, 40, 80, 100, 200}) {
    EXPECT_LE(RenderProgress(kState, width).size(), static_cast<std::size_t>(width));
  }
}

TEST(RenderProgress, BeforeTheFirstStepNothingIsDividedByZero) {
  const std::string line = RenderProgress({.model = "m"}, 120);
  EXPECT_THAT(line, HasSubstr("0%"));
}

TEST(RenderDuration, IsShortAndNeverNegative) {
  EXPECT_EQ(RenderDuration(7), "0:07");
  EXPECT_EQ(RenderDuration(3723), "1:02:03");
  EXPECT_EQ(RenderDuration(-5), "?");
  EXPECT_EQ(RenderDuration(std::numeric_limits<double>::infinity()), "?");
}

TEST(Phases, ScopesAddUp) {
  FakeClock clock;
  PhaseTimes times;
  for (int i = 0; i < 2; ++i) {
    const PhaseScope scope(clock, times, Phase::kForward);
    clock.Advance(std::chrono::milliseconds(3));
  }
  EXPECT_EQ(times.Of(Phase::kForward), std::chrono::milliseconds(6));
  EXPECT_EQ(times.Of(Phase::kBackward), Instant(0));
  EXPECT_EQ(times.Since(times).Of(Phase::kForward), Instant(0));
}

TEST(RunDirectory, DefaultNameIsReadableAndSorted) {
  EXPECT_EQ(DefaultRunPath("vgg16", 1'700'000'000, 42), "runs/vgg16-20231114-221320-42");
}

TEST(RunDirectory, AFileInTheWayIsAClearError) {
  const TempDir dir;
  testing::WriteFile(dir / "file", "x");
  EXPECT_THAT(RunDirectory(dir / "file/run").Create(),
              StatusIs(Code::kDisk, HasSubstr("cannot make the run directory")));
}

TEST(WriteTextFile, ReplacesTheWholeFileAndLeavesNothingElse) {
  const TempDir dir;
  ASSERT_THAT(WriteTextFile(dir / "a", "one"), IsOk());
  ASSERT_THAT(WriteTextFile(dir / "a", "two"), IsOk());
  EXPECT_EQ(ReadFile(dir / "a"), "two");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.tmp"));
  EXPECT_THAT(WriteTextFile(dir / "missing/a", "x"), StatusIs(Code::kDisk, HasSubstr("missing/a")));
}

TEST(StopWatcher, ASignalStopsTheSource) {
  std::stop_source source;
  std::binary_semaphore stopped(0);
  const std::stop_callback callback(source.get_token(), [&] { stopped.release(); });
  {
    const StopWatcher watcher(source);
    EXPECT_FALSE(source.stop_requested());
    ::kill(::getpid(), SIGTERM);
    stopped.acquire();
  }
  EXPECT_TRUE(source.stop_requested());
}

TEST(WorkerEnvironment, LeavesTheUsersChoiceAlone) {
  const auto untouched = WorkerEnvironment([](const char*) { return nullptr; });
  EXPECT_TRUE(untouched.contains("GLIBC_TUNABLES"));
  const auto chosen = WorkerEnvironment([](const char* name) {
    return std::string_view(name) == "GLIBC_TUNABLES" ? "glibc.malloc.arena_max=1" : nullptr;
  });
  EXPECT_FALSE(chosen.contains("GLIBC_TUNABLES"));
  EXPECT_TRUE(chosen.contains("MALLOC_TRIM_THRESHOLD_"));
}

TEST(WorkerEnvironment, SaysWhichBlasKernelsOnlyWhereTheCpuIsKnown) {
  const GetEnv nothing = [](const char*) { return nullptr; };
  EXPECT_EQ(WorkerEnvironment(nothing).contains("OPENBLAS_CORETYPE"), HasAvx512());
  EXPECT_FALSE(WorkerEnvironment(nothing, WorkerHost::kOther).contains("OPENBLAS_CORETYPE"));
}

TEST(EventLog, WritesOneJsonObjectPerLine) {
  const TempDir dir;
  FakeClock clock;
  auto log = EventLog::Open(dir / "events.jsonl", clock);
  ASSERT_THAT(log, IsOk());
  clock.Advance(std::chrono::milliseconds(1500));
  ASSERT_THAT(log->Write("step", JsonObject().Add("step", 7).Add("loss", std::nan(""))), IsOk());
  ASSERT_THAT(log->Write("end", JsonObject()), IsOk());
  EXPECT_EQ(
      ReadFile(dir / "events.jsonl"),
      "{\"type\": \"step\", \"time\": 1.5, \"unix\": 1700000000, \"step\": 7, \"loss\": null}\n"
      "{\"type\": \"end\", \"time\": 1.5, \"unix\": 1700000000}\n");
}

TEST(EventLog, StartsANewLineAfterOneThatWasCutShort) {
  const TempDir dir;
  const std::string path = dir / "events.jsonl";
  ASSERT_THAT(WriteTextFile(path, "{\"type\": \"st"), IsOk());
  FakeClock clock;
  auto log = EventLog::Open(path, clock);
  ASSERT_THAT(log, IsOk());
  ASSERT_THAT(log->Write("end", JsonObject()), IsOk());
  EXPECT_THAT(ReadFile(path), HasSubstr("\"st\n{\"type\": \"end\""));
}

TEST(EventLog, AFullDiskIsReportedOnce) {
  FakeClock clock;
  auto log = EventLog::Open("/dev/full", clock);
  ASSERT_THAT(log, IsOk());
  EXPECT_THAT(log->Write("step", JsonObject()), StatusIs(Code::kDisk, HasSubstr("No space left")));
  EXPECT_THAT(log->Write("step", JsonObject()), IsOk());
}

}  // namespace
}  // namespace paceline::job

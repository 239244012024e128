// What the world around an elastic run can do to it: deaths at every point of a step, clocks that
// jump, strangers on its ports, too little memory, another store. T numbers as in docs/testing.md.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "net/secret.h"
#include "store/etcd_test_util.h"
#include "support/elastic_run.h"
#include "support/processes.h"
#include "support/program.h"
#include "support/strangers.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kDeadline = 240s;  // only against hanging

// T01: in small buckets, so that reductions are under way wherever backward is.
TEST(Faults, AWorkerMayDieAtAnyPointOfAStep) {
  for (const std::string tensor : {"0", "7", "19", "30", "41"}) {
    SCOPED_TRACE("tensor " + tensor);
    ExpectSameBits("1:3", "", {"--bucket-kb", "16"},
                   {{"PACELINE_FAULTS", "rank=1,kill:step=37,tensor=" + tensor}});
  }
}

// T10
TEST(Faults, AClockThatJumpsChangesNothing) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult result = RunPaceline(Elastic(run, "1:3", {"--chaos", "kill=worker:1@step20"}),
                                           {{"LD_PRELOAD", Program("clock_jump.so")}});
  EXPECT_EQ(HashOf(result), UndisturbedHash());
  ExpectInvariants(run);
  EXPECT_EQ(Count(run + "/members.jsonl", "evict"), 0U);
  EXPECT_EQ(Count(run + "/members.jsonl", "lost"), 1U);  // the one that was killed
  std::vector<double> durations, wall;
  for (const auto& record : Records(run + "/events.jsonl")) {
    if (record.contains("seconds")) durations.push_back(record["seconds"].get<double>());
    wall.push_back(record["unix"].get<double>());
  }
  EXPECT_THAT(durations, Each(Ge(0)));
  const auto [earliest, latest] = std::ranges::minmax(wall);
  EXPECT_GT(latest - earliest, 3'000);  // it did jump
  EXPECT_THAT(result.err, Not(HasSubstr("ETA -")));
}

pid_t CoordinatorOf(const std::string& run) {
  for (;;) {
    for (const auto& record : Records(run + "/members.jsonl")) {
      if (record["type"] == "coordinator") return record["pid"].get<pid_t>();
    }
    std::this_thread::yield();
  }
}

CommandResult JoinWithAnotherSecret(const std::string& run) {
  std::vector<std::string> argv = Elastic(run, "1:3");
  argv.insert(argv.begin(), Program("paceline-worker"));
  const nlohmann::json coordinator = Records(run + "/members.jsonl").front();
  const auto stranger = RunCommand(
      {.argv = argv,
       .environment = {{"PACELINE_RANK", "2"},
                       {"PACELINE_WORLD", "3"},
                       {"PACELINE_COORDINATOR", coordinator["endpoint"].get<std::string>()},
                       {"PACELINE_SECRET", net::Secret::Generate()->ToHex()}}},
      kDeadline);
  EXPECT_THAT(stranger, IsOk());
  return stranger.ok() ? *stranger : CommandResult{};
}

// T15, T16
TEST(Faults, StrangersAtTheCoordinatorChangeNothing) {
  constexpr int kSteps = 200;
  const TempDir dir;
  const std::string run = dir / "run";
  Subprocess child = StartPaceline(Elastic(run, "1:3", {"--steps", std::to_string(kSteps)}));
  const pid_t coordinator = CoordinatorOf(run);
  const std::size_t files = OpenFiles(coordinator);
  const std::size_t memory = ResidentBytes(coordinator);
  {
    Strangers strangers;
    strangers.Bother(coordinator, 200);
    EXPECT_EQ(strangers.count(), 200U);
    ExpectError(JoinWithAnotherSecret(run), 11, "wrong secret");
    EXPECT_LT(ResidentBytes(coordinator), memory + (std::size_t{10} << 20));
  }
  // Its workers and their records account for a few.
  while (OpenFiles(coordinator) > files + 10) std::this_thread::yield();
  const auto output = child.ReadAll(kDeadline);
  ASSERT_THAT(output, IsOk());
  const auto state = child.Wait(kDeadline);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(HashOf({.state = *state, .out = output->out, .err = output->err}),
            UndisturbedHash(kSteps));
  ExpectInvariants(run);
  EXPECT_EQ(Count(run + "/members.jsonl", "lost"), 0U);
  EXPECT_THAT(output->out, HasSubstr("turned a caller away"));
}

// A control group with a limit on memory, version 1; removed in the end.
class MemoryGroup {
 public:
  MemoryGroup() { made_ = ::mkdir(path_.c_str(), 0755) == 0 && Readable("memory.oom_control"); }
  ~MemoryGroup() {
    if (made_) ::rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return made_; }
  bool Limit(std::size_t bytes) const {
    std::ofstream file(path_ + "/memory.limit_in_bytes");
    return static_cast<bool>(file << bytes << std::flush);
  }
  std::size_t MostUsed() const {
    std::size_t bytes = 0;
    std::ifstream(path_ + "/memory.max_usage_in_bytes") >> bytes;
    return bytes;
  }
  // The command, started inside; it says everything on stdout.
  std::vector<std::string> Inside(const std::vector<std::string>& paceline) const {
    std::vector<std::string> argv{"/bin/sh", "-c",
                                  "echo $$ > " + path_ + "/cgroup.procs && exec \"$@\" 2>&1", "sh",
                                  Program("paceline")};
    argv.insert(argv.end(), paceline.begin(), paceline.end());
    return argv;
  }

 private:
  bool Readable(const char* file) const { return std::ifstream(path_ + "/" + file).good(); }

  const std::string path_ = "/sys/fs/cgroup/memory/paceline-test-" + std::to_string(::getpid());
  bool made_ = false;
};

// T20
TEST(Faults, AWorkerWithoutMemoryIsReportedAsSuch) {
  const MemoryGroup group;
  if (!group.made()) GTEST_SKIP() << "skipped: no control group of version 1 can be made here";
  const TempDir dir;
  const auto command = [&](const std::string& name) {
    return group.Inside(
        Elastic(dir / name, "1:1", {"--restarts", "1", "--steps", "5", "--batch", "64"}));
  };
  const auto enough = RunCommand({.argv = command("enough")}, kDeadline);
  ASSERT_THAT(enough, IsOk());
  EXPECT_EQ(enough->state.code, 0) << enough->out;
  ASSERT_TRUE(group.Limit(group.MostUsed() / 3 * 2));
  auto child = Subprocess::Start({.argv = command("run")});
  ASSERT_THAT(child, IsOk());
  std::string said;
  while (said.find("no restarts left") == std::string::npos) {
    const auto line = child->ReadLine(kDeadline);
    ASSERT_THAT(line, IsOk()) << said;
    said += *line + "\n";
  }
  EXPECT_THAT(said, HasSubstr("was ended by SIGKILL: out of memory; starting another"));
  EXPECT_THAT(said, HasSubstr("was ended by SIGKILL: out of memory; no restarts left"));
  child->Signal(SIGINT);
  ASSERT_THAT(child->Wait(kDeadline), IsOk());
  EXPECT_TRUE(ProcessesOf(dir / "run").empty());
}

TEST(Faults, TheCoordinatorComesBackFromEtcd) {
  if (const auto why = store::EtcdMissing()) GTEST_SKIP() << *why;
  const auto etcd = store::EtcdServer::Start();
  ASSERT_NE(etcd, nullptr);
  ExpectSameBits("1:3", "kill=worker:2@step15,kill=coordinator@step30,kill=worker:1@step50",
                 {"--store", etcd->where()});
}

TEST(Faults, RecoveryIsMeasured) {
  const TempDir dir;
  const CommandResult result =
      RunPaceline({"bench", "recovery", "--model", "vgg16-small", "--batch", "2", "--faults", "2",
                   "--cost-rounds", "1", "--cost-steps", "4", "--out", dir / "out", "--json"});
  EXPECT_EQ(result.state.code, 0) << result.err;
  const auto results = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(results.is_object()) << result.out;
  EXPECT_EQ(results["recoveries"].size(), 2U);
  EXPECT_EQ(results["audit"], "OK");
  EXPECT_GT(results["summary"]["elastic_over_fixed"]["median"].get<double>(), 0);
  EXPECT_TRUE(ProcessesOf(dir / "out").empty());
}

}  // namespace
}  // namespace paceline::testing

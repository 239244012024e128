#include "bench/scaling.h"

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Not;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::WriteFile;

// A step server in sh, called with --model M --batch N --threads T [--init X]. $mode and $rank say
// which it is; a run takes `alone` seconds, or `together` and one more on rank 1.
struct FakeTeam {
  std::string system = "Fake";
  std::string params = "60";
  int alone = 1;
  int together = 1;
  std::string before_ready;
  std::string on_run;
  std::string on_quit;

  std::string Script(const std::string& order_log) const {
    return fmt::format(R"(
mode=alone rank=${{PACELINE_RANK:-$RANK}} s={}
if [ -n "$rank" ]; then mode=together s=$(({} + rank)); fi
{}
echo "{{\"ready\":true,\"system\":\"{}\",\"version\":\"1.2\",\"model\":\"$2\",\"params\":{},\"tensors\":6,\"batch\":$4,\"threads\":$6}}"
while read command n; do
  if [ "$command" = quit ]; then {} echo '{{"max_rss_bytes":123456789012}}'; exit 0; fi
  echo {} $mode >> '{}'
  {}
  echo "{{\"seconds\":$s,\"samples\":$((n * $4)),\"loss\":2.5}}"
done
)",
                       alone, together, before_ready, system, params, on_quit, system, order_log,
                       on_run);
  }
};

const FakeTeam kOurTeam{.system = "Ours", .alone = 2, .together = 3};
const FakeTeam kPeerTeam{.system = "Peer", .alone = 4, .together = 15};

class Scaling : public ::testing::Test {
 protected:
  ScalingOptions Options(const FakeTeam& ours, const FakeTeam& peer) {
    WriteFile(dir_ / "ours", ours.Script(dir_ / "order"));
    WriteFile(dir_ / "pytorch_image.py", peer.Script(dir_ / "order"));
    ScalingOptions options;
    options.config.model = "vgg16-small";
    options.config.batch = 32;
    options.config.rounds = 2;
    options.config.warmup_steps = 1;
    options.worker = {"/bin/sh", dir_ / "ours"};
    options.peers_dir = dir_.path();
    options.python = "/bin/sh";
    options.out_dir = dir_ / "out";
    options.expected_params = 60;
    options.expected_tensors = 6;
    return options;
  }

  ScalingOutcome Run(const ScalingOptions& options) {
    return RunScaling(
        options, job::Machine{}, {.command_line = "here"},
        [this](const std::string& line) { lines_.push_back(line); }, stop_.get_token());
  }

  std::string Log(const std::string& name) {
    return testing::ReadFile(dir_ / ("out/logs/" + name));
  }

  std::string Fifo(const std::string& name) {
    const std::string path = dir_ / name;
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  const testing::TempDir dir_;
  std::stop_source stop_;
  std::vector<std::string> lines_;
};

TEST_F(Scaling, TeamsTakeTurnsAndTheOrderFlips) {
  ASSERT_THAT(Run(Options(kOurTeam, kPeerTeam)).status, IsOk());
  std::string expected;
  for (const char* team : {"Ours alone", "Ours together", "Peer alone", "Peer together",  // warm-up
                           "Ours alone", "Ours together", "Peer alone", "Peer together",
                           "Peer together", "Peer alone", "Ours together", "Ours alone"}) {
    for (int worker = 0; worker < 2; ++worker) expected += std::string(team) + "\n";
  }
  EXPECT_EQ(testing::ReadFile(dir_ / "order"), expected);
}

TEST_F(Scaling, TheSlowestWorkerDecidesAndAllSecondsAreKept) {
  const ScalingOutcome outcome = Run(Options(kOurTeam, kPeerTeam));
  ASSERT_THAT(outcome.status, IsOk());
  ASSERT_THAT(outcome.results.systems, SizeIs(2));
  const ScalingSystem& ours = outcome.results.systems[0];
  EXPECT_EQ(ours.info.name, "Ours");
  EXPECT_EQ(ours.info.version, "1.2");
  EXPECT_THAT(ours.together.rank_seconds, ElementsAre(ElementsAre(3, 4), ElementsAre(3, 4)));
  EXPECT_EQ(ours.together.samples, 2 * 2 * 32);  // workers, steps, batch
  EXPECT_EQ(ours.together.max_rss_bytes, 2 * 123'456'789'012);
  EXPECT_THAT(ours.alone.Rates(), ElementsAre(64, 64));
  EXPECT_THAT(ours.together.Rates(), ElementsAre(32, 32));
  EXPECT_THAT(lines_, Contains("round 1/2  Ours alone 64.0  Ours allreduce 32.0  Peer alone 32.0  "
                               "Peer DDP 8.0 samples/s"));
}

// Opening a fifo waits for the other end, so this hangs unless both ranks are asked at once.
TEST_F(Scaling, WorkersOfATeamStartRunAndQuitAtTheSameTime) {
  FakeTeam ours = kOurTeam;
  const auto meet = [this](const std::string& name) {
    return fmt::format("case $rank in 0) : < '{0}';; 1) : > '{0}';; esac;", Fifo(name));
  };
  ours.before_ready = meet("ready");
  ours.on_run = meet("run");
  ours.on_quit = meet("quit");
  EXPECT_THAT(Run(Options(ours, kPeerTeam)).status, IsOk());
}

TEST_F(Scaling, OurGroupLearnsWhoItIsAndWhereToMeet) {
  FakeTeam ours = kOurTeam;
  ours.before_ready = "env >&2";
  ASSERT_THAT(Run(Options(ours, kPeerTeam)).status, IsOk());
  EXPECT_THAT(Log("paceline-together-1.stderr"),
              AllOf(HasSubstr("PACELINE_RANK=1\n"), HasSubstr("PACELINE_WORLD=2\n"),
                    HasSubstr("PACELINE_COORDINATOR=127.0.0.1:"), HasSubstr("PACELINE_SECRET="),
                    HasSubstr("PACELINE_COORDINATOR_RUNS="), HasSubstr("OMP_NUM_THREADS=1\n")));
  EXPECT_THAT(Log("paceline-alone-1.stderr"), Not(HasSubstr("PACELINE_RANK")));
}

TEST_F(Scaling, ThePeersGroupMeetsAtAFileThatIsNotThereYet) {
  FakeTeam peer = kPeerTeam;
  peer.before_ready =
      "echo \"$7 $8 $RANK of $WORLD_SIZE\" >&2; [ ! -e \"${8#file://}\" ] || exit 1";
  ASSERT_THAT(Run(Options(kOurTeam, peer)).status, IsOk());
  EXPECT_THAT(Log("pytorch-together-1.stderr"),
              AllOf(HasSubstr("--init file:///"), HasSubstr(" 1 of 2\n")));
  EXPECT_EQ(Log("pytorch-alone-1.stderr"), "   of \n");
}

TEST_F(Scaling, APeerThatIsNotInstalledIsARowAndTheRestGoesOn) {
  for (const char* when : {"true", "[ $mode = together ]"}) {
    FakeTeam peer = kPeerTeam;
    peer.before_ready = fmt::format("if {}; then echo 'not here' >&2; exit 3; fi", when);
    const ScalingOutcome outcome = Run(Options(kOurTeam, peer));
    ASSERT_THAT(outcome.status, IsOk()) << when;
    EXPECT_THAT(outcome.results.systems[1].info.unavailable, HasSubstr("not here"));
    EXPECT_THAT(outcome.results.systems[0].together.rank_seconds, SizeIs(2));
    EXPECT_THAT(outcome.results.systems[1].alone.rank_seconds, IsEmpty());
  }
}

TEST_F(Scaling, WithoutAPeerOnlyOursRuns) {
  ScalingOptions options = Options(kOurTeam, kPeerTeam);
  options.peer = "";
  const ScalingOutcome outcome = Run(options);
  ASSERT_THAT(outcome.status, IsOk());
  EXPECT_THAT(outcome.results.systems, SizeIs(1));
}

TEST_F(Scaling, ACrashNamesTheSystemAndTheRank) {
  FakeTeam peer = kPeerTeam;
  peer.on_run = "if [ \"$rank\" = 1 ]; then echo 'out of memory' >&2; exit 9; fi";
  const ScalingOutcome outcome = Run(Options(kOurTeam, peer));
  EXPECT_THAT(outcome.status,
              StatusIs(Code::kPeerLost, AllOf(HasSubstr("rank 1: Peer: exit code 9 while run 1"),
                                              HasSubstr("out of memory"))));
  EXPECT_TRUE(outcome.results.partial);
  EXPECT_EQ(outcome.results.failure, outcome.status.message());
}

TEST_F(Scaling, AnotherModelIsAMismatchAlsoOnOneRank) {
  FakeTeam peer = kPeerTeam;
  peer.params = "61";
  EXPECT_THAT(Run(Options(kOurTeam, peer)).status,
              StatusIs(Code::kMismatch, "Peer: has 61 parameters, expected 60"));
  peer.params = "6${RANK:-0}";
  EXPECT_THAT(Run(Options(kOurTeam, peer)).status, StatusIs(Code::kMismatch, HasSubstr("rank 1")));
}

TEST_F(Scaling, AStopEndsATeamInTheMiddleOfAStep) {
  const std::string fifo = Fifo("started");
  const std::jthread stopper([&] {
    std::ifstream started(fifo);  // opens when the step has begun
    stop_.request_stop();
  });
  FakeTeam peer = kPeerTeam;
  peer.on_run = fmt::format(
      "if [ $mode = together ]; then if [ $rank = 0 ]; then echo > '{}'; fi; read forever; fi",
      fifo);
  EXPECT_THAT(Run(Options(kOurTeam, peer)).status,
              StatusIs(Code::kAborted, HasSubstr("Peer: stopped")));
}

TEST_F(Scaling, OptionsThatCannotWorkAreNamed) {
  const auto status = [&](auto change) {
    ScalingOptions options = Options(kOurTeam, kPeerTeam);
    change(options);
    return Run(options).status;
  };
  EXPECT_THAT(status([](auto& o) { o.config.workers = 1; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("--workers 1")));
  EXPECT_THAT(status([](auto& o) { o.config.batch = 1; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("batch size 1")));
  EXPECT_THAT(status([](auto& o) { o.config.steps = 0; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("steps")));
  EXPECT_THAT(status([](auto& o) { o.config.cpus = {{0}}; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("CPUs for 1 of 2")));
  EXPECT_THAT(status([](auto& o) { o.peer = "../evil"; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("unknown peer ../evil")));
  EXPECT_THAT(status([](auto& o) { o.peer = "tensorflow"; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensorflow_image.py")));
}

TEST_F(Scaling, EveryWorkerIsPinnedToItsCpus) {
  FakeTeam ours = kOurTeam;
  ours.before_ready = "grep Cpus_allowed_list /proc/self/status >&2";
  ScalingOptions options = Options(ours, kPeerTeam);
  const int cpu = DefaultCpu(1).value();
  options.config.cpus = {{cpu}, {cpu}};
  ASSERT_THAT(Run(options).status, IsOk());
  for (const char* log : {"paceline-alone-0.stderr", "paceline-together-1.stderr"}) {
    EXPECT_EQ(Log(log), fmt::format("Cpus_allowed_list:\t{}\n", cpu));
  }
}

TEST(ScalingCpus, AreAsManyAsThreadsForEachWorkerOrNone) {
  const job::AvailableCpus five{.cpus = {0, 1, 2, 4, 6}, .cores = 5};
  EXPECT_THAT(ScalingCpus({.workers = 2, .threads = 1}, five), ElementsAre(SizeIs(1), SizeIs(1)));
  EXPECT_THAT(ScalingCpus({.workers = 2, .threads = 2}, five), ElementsAre(SizeIs(2), SizeIs(2)));
  EXPECT_THAT(ScalingCpus({.workers = 3, .threads = 2}, five), IsEmpty());
}

}  // namespace
}  // namespace paceline::bench

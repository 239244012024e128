#include "bench/perf_run.h"

#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReadFile;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::WriteFile;

// A rank in Python. `on_run` sets `answer` from the command and its number `i`.
constexpr char kFakeRank[] = R"(#!/usr/bin/python3
import json, os, socket, sys, time
engine = sys.argv[sys.argv.index("--engine") + 1]
rank, world = int(os.environ["PACELINE_RANK"]), int(os.environ["PACELINE_WORLD"])
{before_ready}
channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["PACELINE_PERF_CONTROL"])
lines = channel.makefile("rw")
def say(answer):
    lines.write(json.dumps(answer) + "\n")
    lines.flush()
say(dict(ready=True, engine=engine, version="1", rank=rank, world=world))
for i, line in enumerate(lines):
    if line == "quit\n":
        say(dict(max_rss_bytes=1000 + rank))
        break
    if rank == 0:
        open({order!r}, "a").write(engine + " ")
    fields = dict(word.split("=") for word in line.split()[1:])
    answer = dict(rank=rank, seconds=1 + rank, iterations=int(fields["iters"]), min_us=1, p50_us=2,
                  p95_us=3, p99_us=4, max_us=5, wrong=0, sent_bytes=10)
    {on_run}
    say(answer)
)";

class PerfRun : public ::testing::Test {
 protected:
  PerfRunOptions Options(const std::string& on_run = "pass",
                         const std::string& before_ready = "pass") {
    std::string script = kFakeRank;
    const auto set = [&](const std::string& name, const std::string& value) {
      script.replace(script.find(name), name.size(), value);
    };
    set("{order!r}", fmt::format("'{}'", dir_ / "order"));
    set("{on_run}", on_run);
    set("{before_ready}", before_ready);
    WriteFile(dir_ / "rank", script);
    std::filesystem::permissions(dir_ / "rank", std::filesystem::perms::owner_all);
    PerfRunOptions options;
    options.config = {.workers = 2,
                      .sizes = {.min_bytes = 4096, .max_bytes = 16384, .factor = 4},
                      .iterations = 10,
                      .rounds = 2};
    options.engines = {"native", "gloo"};
    options.rank_program = dir_ / "rank";
    options.out_dir = dir_ / "out";
    options.cores = 2;
    return options;
  }
  PerfOutcome Run(const PerfRunOptions& options) {
    return RunPerf(
        options, job::Machine{.cores = 2}, {.command_line = "here"},
        [this](const std::string& line) {
          lines_.push_back(line);
          if (on_progress_) on_progress_(line);
        },
        stop_.get_token());
  }

  const testing::TempDir dir_;
  std::stop_source stop_;
  std::function<void(const std::string&)> on_progress_;
  std::vector<std::string> lines_;
};

TEST_F(PerfRun, EnginesTakeTurnsAndTheOrderFlips) {
  const PerfOutcome outcome = Run(Options());
  ASSERT_THAT(outcome.status, IsOk());
  EXPECT_EQ(ReadFile(dir_ / "order"), "native gloo gloo native native gloo gloo native ");
  ASSERT_THAT(outcome.results.engines, SizeIs(2));
  const EngineResults& gloo = outcome.results.engines[1];
  EXPECT_EQ(gloo.version, "1");
  EXPECT_EQ(gloo.max_rss_bytes, 1001);
  ASSERT_THAT(gloo.points, SizeIs(2));
  EXPECT_EQ(gloo.points[1].requested_bytes, 16384U);
  EXPECT_THAT(gloo.points[1].time_us, ElementsAre(2e5, 2e5));  // rank 1 is the slower one
  EXPECT_FALSE(outcome.results.partial);
}

TEST_F(PerfRun, AnAbsentEngineIsALineAndTheOthersRun) {
  const PerfOutcome outcome =
      Run(Options("pass", "if engine == 'native': print('no such engine'); sys.exit(3)"));
  ASSERT_THAT(outcome.status, IsOk());
  EXPECT_THAT(outcome.results.engines[0].unavailable, HasSubstr("no such engine"));
  EXPECT_EQ(ReferenceEngine(outcome.results), 1U);
  EXPECT_THAT(outcome.results.engines[1].points, SizeIs(2));
}

TEST_F(PerfRun, NoEngineAtAllIsAnError) {
  EXPECT_THAT(Run(Options("pass", "sys.exit(3)")).status, StatusIs(Code::kUnavailable, _));
}

TEST_F(PerfRun, ARankThatDiesIsNamedWithItsLastWords) {
  const PerfOutcome outcome =
      Run(Options("if engine == 'gloo' and i == 1 and rank == 1: print('out of luck', flush=True); "
                  "os._exit(9)"));
  EXPECT_THAT(outcome.status, StatusIs(Code::kPeerLost, HasSubstr("gloo: run op=allreduce")));
  EXPECT_THAT(outcome.status.message(), HasSubstr("out of luck"));
  EXPECT_TRUE(outcome.results.partial);
  EXPECT_THAT(outcome.results.engines[0].points, SizeIs(1));  // what was measured is kept
}

TEST_F(PerfRun, AnErrorOfTheEngineIsShown) {
  EXPECT_THAT(Run(Options("answer = dict(error='lost rank 1')")).status,
              StatusIs(Code::kPeerLost, HasSubstr("lost rank 1")));
}

TEST_F(PerfRun, WrongSumsFailTheRunAfterAllWasMeasured) {
  const PerfOutcome outcome = Run(Options("answer['wrong'] = 1"));
  EXPECT_THAT(outcome.status, StatusIs(Code::kBadData, HasSubstr("8 wrong elements")));
  EXPECT_THAT(outcome.results.engines[1].points, SizeIs(2));
}

TEST_F(PerfRun, AStopEndsARunInTheMiddle) {
  PerfRunOptions options = Options("if fields['size'] == '16384': time.sleep(600)");
  std::jthread stopper;
  on_progress_ = [&](const std::string& line) {
    // The line of the first size: the ranks hang in the second one from now on.
    if (line.starts_with("    4K")) stopper = std::jthread([this] { stop_.request_stop(); });
  };
  const PerfOutcome outcome = Run(options);
  EXPECT_THAT(outcome.status, StatusIs(Code::kAborted, _));
  EXPECT_TRUE(outcome.results.partial);
}

TEST_F(PerfRun, SaysThatWorkersShareCores) {
  PerfRunOptions options = Options();
  options.config.workers = 3;
  ASSERT_THAT(Run(options).status, IsOk());
  EXPECT_THAT(lines_, Contains("3 workers share 2 cores"));
}

TEST_F(PerfRun, RanksAreStartedOnHostsInTurn) {
  PerfRunOptions options = Options();
  options.config.workers = 3;
  options.rank_prefix = "ip netns exec {host}";
  options.hosts = {"a", "b"};
  options.addresses = {"10.0.0.1", "10.0.0.2"};
  const auto ranks = PlanProcesses(options, "gloo", "/folder");
  ASSERT_THAT(ranks, SizeIs(3));
  EXPECT_THAT(ranks[1].argv,
              ElementsAre("ip", "netns", "exec", "b", options.rank_program, "--engine", "gloo"));
  EXPECT_EQ(ranks[1].environment.at("PACELINE_ADDRESS"), "10.0.0.2");
  EXPECT_EQ(ranks[2].environment.at("PACELINE_ADDRESS"), "10.0.0.1");
  EXPECT_EQ(ranks[2].environment.at("PACELINE_RANK"), "2");
  options.remote_agent = "agent -x";
  const auto mpi = PlanProcesses(options, "mpi", "/folder");
  ASSERT_THAT(mpi, SizeIs(1));
  EXPECT_THAT(fmt::format("{}", fmt::join(mpi[0].argv, " ")),
              HasSubstr("agent -x 10.0.0.1 mpirun --host 10.0.0.1:2,10.0.0.2:2"));
  EXPECT_THAT(mpi[0].argv, Contains("mpi_yield_when_idle"));
}

TEST_F(PerfRun, WrongOptionsAreNamed) {
  const auto refused = [&](const std::function<void(PerfRunOptions&)>& spoil) {
    PerfRunOptions options = Options();
    spoil(options);
    const Status status = Validate(options);
    EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, _));
    return status.message();
  };
  EXPECT_THAT(refused([](auto& o) { o.config.workers = 0; }), HasSubstr("workers"));
  EXPECT_THAT(refused([](auto& o) { o.config.rounds = 0; }), HasSubstr("rounds"));
  EXPECT_THAT(refused([](auto& o) { o.config.iterations = -1; }), HasSubstr("iterations"));
  EXPECT_THAT(refused([](auto& o) { o.engines = {"pigeon"}; }), HasSubstr("pigeon"));
  EXPECT_THAT(refused([](auto& o) { o.engines = {"gloo", "gloo"}; }), HasSubstr("twice"));
  EXPECT_THAT(refused([](auto& o) { o.engines.clear(); }), HasSubstr("which"));
  EXPECT_THAT(refused([](auto& o) { o.hosts = {"a"}; }), HasSubstr("addresses"));
  EXPECT_THAT(refused([](auto& o) { o.rank_prefix = "x"; }), HasSubstr("hosts"));
}

}  // namespace
}  // namespace paceline::bench

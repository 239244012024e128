#include "bench/single_node.h"

#include <sys/stat.h>

#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "bench/step_server.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::WriteFile;

// A step server in sh, called with --model M --batch N --threads T. `on_run` is what it does for
// each run of $n steps; round $i takes i * `seconds` there.
struct Fake {
  std::string system = "Fake";
  std::string params = "15254602";
  std::string before_ready;
  double seconds = 1;
  std::string on_run = R"(echo "{\"seconds\":$((i * s)),\"samples\":$((n * $4)),\"loss\":2.5}")";

  std::string Script(const std::string& order_log) const {
    return fmt::format(R"(
{}
echo "{{\"ready\":true,\"system\":\"{}\",\"version\":\"1.2\",\"model\":\"$2\",\"params\":{},\"tensors\":60,\"batch\":$4,\"threads\":$6}}"
s={} i=0
while read command n; do
  if [ "$command" = quit ]; then echo '{{"max_rss_bytes":123456789012}}'; exit 0; fi
  i=$((i + 1)); echo {} >> '{}'
  {}
done
)",
                       before_ready, system, params, seconds, system, order_log, on_run);
  }
};

class SingleNode : public ::testing::Test {
 protected:
  SingleNodeOptions Options(const Fake& ours, const Fake& peer) {
    WriteFile(dir_ / "ours", ours.Script(dir_ / "order"));
    WriteFile(dir_ / "pytorch_image.py", peer.Script(dir_ / "order"));
    SingleNodeOptions options;
    options.config.rounds = 3;
    options.batches = {32};
    options.worker = {"/bin/sh", dir_ / "ours"};
    options.peers_dir = dir_.path();
    options.python = "/bin/sh";
    options.out_dir = dir_ / "out";
    return options;
  }

  SingleNodeOutcome Run(const SingleNodeOptions& options) {
    return RunSingleNode(
        options, job::Machine{}, {.command_line = "here"},
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

const Fake kOurs{.system = "Ours", .seconds = 2};
const Fake kPeer{.system = "Peer", .seconds = 4};

TEST_F(SingleNode, SystemsTakeTurnsAndTheOrderFlips) {
  const SingleNodeOutcome outcome = Run(Options(kOurs, kPeer));
  ASSERT_THAT(outcome.status, IsOk());
  // Warm-up, then three rounds.
  EXPECT_EQ(testing::ReadFile(dir_ / "order"), "Ours\nPeer\nOurs\nPeer\nPeer\nOurs\nOurs\nPeer\n");
}

TEST_F(SingleNode, KeepsTheRawSecondsOfEveryRoundButNotOfTheWarmUp) {
  SingleNodeOptions options = Options(kOurs, kPeer);
  options.batches = {32, 64};
  options.config.samples_per_round = 128;
  const SingleNodeOutcome outcome = Run(options);
  ASSERT_THAT(outcome.status, IsOk());
  EXPECT_FALSE(outcome.results.partial);
  ASSERT_THAT(outcome.results.batches, SizeIs(2));
  const BatchRuns& batch = outcome.results.batches[1];
  EXPECT_EQ(batch.batch, 64);
  EXPECT_THAT(batch.systems[0].seconds, ElementsAre(4, 6, 8));
  EXPECT_THAT(batch.systems[1].seconds, ElementsAre(8, 12, 16));
  EXPECT_EQ(batch.systems[0].samples, 128);
  EXPECT_EQ(batch.systems[0].max_rss_bytes, 123'456'789'012);
  EXPECT_EQ(outcome.results.systems[1].name, "Peer");
  EXPECT_EQ(outcome.results.systems[1].version, "1.2");
  EXPECT_EQ(outcome.results.provenance.command_line, "here");
}

TEST_F(SingleNode, ReportsEachRoundAsOneLine) {
  ASSERT_THAT(Run(Options(kOurs, kPeer)).status, IsOk());
  EXPECT_THAT(lines_, Contains("batch 32  round 1/3  Ours 32.0  Peer 16.0 samples/s"));
}

TEST_F(SingleNode, APeerThatIsNotInstalledIsARowAndTheRestGoesOn) {
  SingleNodeOptions options = Options(
      kOurs, {.before_ready = "echo 'no torch here (apt install python3-torch)' >&2; exit 3"});
  options.batches = {32, 64};
  const SingleNodeOutcome outcome = Run(options);
  ASSERT_THAT(outcome.status, IsOk());
  EXPECT_EQ(outcome.results.systems[1].unavailable,
            "pytorch: no torch here (apt install python3-torch)");
  EXPECT_THAT(outcome.results.batches[1].systems[0].seconds, SizeIs(3));
  EXPECT_THAT(outcome.results.batches[1].systems[1].seconds, IsEmpty());
}

TEST_F(SingleNode, AMissingPythonIsAPeerThatIsNotInstalled) {
  SingleNodeOptions options = Options(kOurs, kPeer);
  options.python = "/no/such/python3";
  const SingleNodeOutcome outcome = Run(options);
  ASSERT_THAT(outcome.status, IsOk());
  EXPECT_THAT(outcome.results.systems[1].unavailable, HasSubstr("/no/such/python3"));
}

TEST_F(SingleNode, OurOwnWorkerMustBeThere) {
  SingleNodeOptions options = Options(kOurs, kPeer);
  options.worker = {"/no/such/worker"};
  EXPECT_THAT(Run(options).status,
              StatusIs(Code::kUnavailable, AllOf(HasSubstr("Paceline"), HasSubstr("worker"))));
}

TEST_F(SingleNode, AnotherModelIsAMismatch) {
  const SingleNodeOutcome outcome = Run(Options(kOurs, {.system = "Peer", .params = "15254601"}));
  EXPECT_THAT(outcome.status,
              StatusIs(Code::kMismatch, "Peer: has 15254601 parameters, expected 15254602"));
}

TEST_F(SingleNode, ACrashNamesTheSystemItsExitAndItsLastWords) {
  const SingleNodeOutcome outcome = Run(Options(
      kOurs, {.system = "Peer", .on_run = "echo first >&2; echo 'out of memory' >&2; exit 9"}));
  EXPECT_THAT(outcome.status,
              StatusIs(Code::kPeerLost, AllOf(HasSubstr("Peer: exit code 9 while run 1"),
                                              HasSubstr("first | out of memory"))));
  EXPECT_TRUE(outcome.results.partial);
}

TEST_F(SingleNode, AFailureKeepsWhatWasMeasured) {
  Fake peer = kPeer;
  peer.on_run = "if [ $i -gt 2 ]; then exit 1; fi; " + peer.on_run;
  const SingleNodeOutcome outcome = Run(Options(kOurs, peer));
  EXPECT_THAT(outcome.status, StatusIs(Code::kPeerLost, HasSubstr("Peer: exit code 1")));
  ASSERT_THAT(outcome.results.batches, SizeIs(1));
  EXPECT_THAT(outcome.results.batches[0].systems[1].seconds, ElementsAre(8));
  EXPECT_EQ(outcome.results.failure, outcome.status.message());
}

TEST_F(SingleNode, AStopBetweenRoundsReturnsAPartialResult) {
  on_progress_ = [this](const std::string& line) {
    if (line.find("round 2/3") != std::string::npos) stop_.request_stop();
  };
  const SingleNodeOutcome outcome = Run(Options(kOurs, kPeer));
  EXPECT_THAT(outcome.status, StatusIs(Code::kAborted, HasSubstr("stopped")));
  EXPECT_TRUE(outcome.results.partial);
  EXPECT_THAT(outcome.results.batches[0].systems[0].seconds, SizeIs(2));
}

TEST_F(SingleNode, AStopEndsASystemInTheMiddleOfAStep) {
  const std::string fifo = dir_ / "started";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::jthread stopper([&] {
    std::ifstream started(fifo);  // opens when the step has begun
    stop_.request_stop();
  });
  SingleNodeOptions options =
      Options(kOurs, {.system = "Peer", .on_run = fmt::format("echo > '{}'; read forever", fifo)});
  EXPECT_THAT(Run(options).status, StatusIs(Code::kAborted, HasSubstr("Peer: stopped")));
}

TEST_F(SingleNode, OptionsThatCannotWorkAreNamed) {
  const auto status = [&](auto change) {
    SingleNodeOptions options = Options(kOurs, kPeer);
    change(options);
    return Run(options).status;
  };
  EXPECT_THAT(status([](auto& o) {
                o.batches = {32, 1};
              }),
              StatusIs(Code::kInvalidArgument, HasSubstr("batch size 1")));
  EXPECT_THAT(status([](auto& o) { o.config.rounds = 0; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("rounds")));
  EXPECT_THAT(status([](auto& o) { o.config.cpu = 1023; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("CPU 1023")));
  EXPECT_THAT(status([](auto& o) { o.config.cpu = 0, o.config.threads = 2; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("2 threads")));
  EXPECT_THAT(status([](auto& o) { o.peers = {"../evil"}; }),
              StatusIs(Code::kInvalidArgument, HasSubstr("unknown peer ../evil")));
}

TEST_F(SingleNode, PinsEveryProcessToTheCpu) {
  Fake ours = kOurs;
  ours.on_run = "grep Cpus_allowed_list /proc/self/status >&2; " + ours.on_run;
  SingleNodeOptions options = Options(ours, kPeer);
  options.config.cpu = DefaultCpu(1);
  ASSERT_TRUE(options.config.cpu);
  EXPECT_FALSE(DefaultCpu(2));
  ASSERT_THAT(Run(options).status, IsOk());
  EXPECT_THAT(testing::ReadFile(dir_ / "out/logs/paceline-32.stderr"),
              HasSubstr(fmt::format("Cpus_allowed_list:\t{}\n", *options.config.cpu)));
}

class StepServerTest : public ::testing::Test {
 protected:
  Result<StepServer> Start(const std::string& script) {
    return StepServer::Start({.name = "fake",
                              .argv = {"/bin/sh", "-c", script},
                              .stderr_path = dir_ / "stderr",
                              .ready_timeout = ready_timeout_},
                             {});
  }
  const std::string ready_ =
      R"(echo '{"ready":true,"system":"Fake","version":"1","model":"m","params":1,"tensors":1,"batch":8,"threads":1}';)";
  const testing::TempDir dir_;
  std::chrono::milliseconds ready_timeout_{60'000};
};

TEST_F(StepServerTest, GarbageInsteadOfReadyIsQuoted) {
  EXPECT_THAT(Start("echo hello; read x"),
              StatusIs(Code::kProtocol, AllOf(HasSubstr("fake"), HasSubstr("\"hello\""))));
}

TEST_F(StepServerTest, AMissingFieldIsNamed) {
  EXPECT_THAT(Start(R"(echo '{"ready":true,"system":"Fake"}'; read x)"),
              StatusIs(Code::kProtocol, HasSubstr("\"version\"")));
}

TEST_F(StepServerTest, NeverReadyEndsAtTheDeadline) {
  ready_timeout_ = 1ms;
  EXPECT_THAT(Start("read x"), StatusIs(Code::kTimeout, HasSubstr("fake: no answer in time")));
}

TEST_F(StepServerTest, AnEarlyExitIsAFailureNotAMissingPeer) {
  EXPECT_THAT(Start("echo boom >&2; exit 1"),
              StatusIs(Code::kPeerLost, AllOf(HasSubstr("exit code 1"), HasSubstr("boom"))));
}

TEST_F(StepServerTest, RefusesTimingsThatCannotBe) {
  for (const char* answer :
       {R"({"seconds":0,"samples":8})", R"({"seconds":1,"samples":7})", R"({"samples":8})",
        R"({"seconds":"1","samples":8})", R"({"seconds":1e999,"samples":8})", "garbage"}) {
    auto server = Start(fmt::format("{} read x; echo '{}'; read x", ready_, answer));
    ASSERT_THAT(server, IsOk());
    EXPECT_THAT(server->Run(1, {}), StatusIs(Code::kProtocol, HasSubstr("Fake"))) << answer;
  }
}

TEST_F(StepServerTest, ALossThatIsNotFiniteIsAbsent) {
  auto server =
      Start(ready_ + R"(read x; echo '{"seconds":1.5,"samples":16,"loss":null}'; read x)");
  ASSERT_THAT(server, IsOk());
  const auto timing = server->Run(2, {});
  ASSERT_THAT(timing, IsOk());
  EXPECT_EQ(timing->seconds, 1.5);
  EXPECT_FALSE(timing->loss);
}

TEST_F(StepServerTest, AFailureAfterQuitIsReported) {
  auto server = Start(ready_ + R"(read x; echo '{"max_rss_bytes":5}'; echo leak >&2; exit 4)");
  ASSERT_THAT(server, IsOk());
  EXPECT_THAT(server->Quit({}),
              StatusIs(Code::kPeerLost, AllOf(HasSubstr("exit code 4"), HasSubstr("leak"))));
}

TEST_F(StepServerTest, MemoryIsAtLeastWhatTheKernelSaw) {
  auto server = Start(ready_ + R"(read x; echo '{"max_rss_bytes":5}')");
  ASSERT_THAT(server, IsOk());
  const auto bytes = server->Quit({});
  ASSERT_THAT(bytes, IsOk());
  EXPECT_GT(*bytes, 100'000);
}

}  // namespace
}  // namespace paceline::bench

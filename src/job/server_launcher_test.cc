#include "job/server_launcher.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::ReadFile;
using testing::TempDir;

constexpr char kWait[] = "while :; do sleep 1000 & wait $!; done";

// Real processes. Scripts order events with named pipes: opening one waits for the other side.
class ServerLauncherTest : public ::testing::Test {
 protected:
  ServerLauncherTest() {
    EXPECT_EQ(::mkfifo((dir_ / "a").c_str(), 0600), 0);
    EXPECT_EQ(::mkfifo((dir_ / "b").c_str(), 0600), 0);
    std::filesystem::create_directories(dir_ / "servers");
    options_.run = dir_.path().string();
    options_.cgroup_root = options_.run;
    options_.server = [this](std::uint64_t index, const std::string& bind) {
      ChildSpec child = Shell(server_script_);
      child.environment = {{"INDEX", std::to_string(index)}, {"BIND", bind}};
      child.label = "server " + std::to_string(index);
      child.rank = Rank(options_.trainers + index);
      return child;
    };
    options_.trainer = [this](std::uint64_t rank, const ServerLaunchOptions::Places& places) {
      ChildSpec child = Shell(trainer_script_);
      child.environment = {{"RANK", std::to_string(rank)},
                           {"SERVERS", fmt::format("{}", fmt::join(places.servers, ","))},
                           {"COORDINATOR", places.coordinator}};
      child.label = "trainer " + std::to_string(rank);
      child.rank = Rank(rank);
      return child;
    };
  }

  ChildSpec Shell(const std::string& script) const {
    return {.argv = {"sh", "-c", "cd " + dir_.path().string() + "; " + script}};
  }

  // The exit code; out_ and err_ are what was printed.
  int Run() {
    const UniqueFd out(::open((dir_ / "out").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    const UniqueFd err(::open((dir_ / "err").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    options_.out_fd = out.get();
    options_.err_fd = err.get();
    const auto code = RunServerLauncher(options_);
    EXPECT_THAT(code, IsOk());
    out_ = ReadFile(dir_ / "out");
    err_ = ReadFile(dir_ / "err");
    return code.ok() ? *code : -1;
  }

  TempDir dir_;
  ServerLaunchOptions options_;
  // Writes its record when it can be asked to stop; then tells pipe "a" that it is back, if it is.
  const std::string ready_ =
      "printf '{\"endpoint\":\"%s\",\"pid\":%d,\"version\":%d}' "
      "${BIND:-127.0.0.1:471$INDEX} $$ 5 >servers/new-$INDEX; "
      "mv servers/new-$INDEX servers/server-$INDEX.json; "
      "if [ -n \"$BIND\" ]; then echo \"$INDEX at $BIND\" >back; echo >a; fi; ";
  std::string server_script_ = "trap 'echo saved >&2; exit 0' TERM; " + ready_ + kWait;
  std::string trainer_script_ = "exit 0";
  std::string out_;
  std::string err_;
};

// In a trainer's script: kills server 1 and waits until it is back.
constexpr char kKillServer[] =
    "if [ $RANK = 0 ]; then kill -9 $(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/' "
    "servers/server-1.json); read x <a; fi; exit 0";

TEST_F(ServerLauncherTest, TrainersFindAllServersWhichEndLast) {
  options_.servers = options_.trainers = 2;
  trainer_script_ = "echo $SERVERS; echo done >&2; ls servers >list$RANK";
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(out_, "127.0.0.1:4710,127.0.0.1:4711\n");  // the other trainer's has a label
  EXPECT_THAT(err_, HasSubstr("[trainer 1] 127.0.0.1:4710,127.0.0.1:4711\n"));
  EXPECT_THAT(err_, HasSubstr("[server 0] saved\n"));
  EXPECT_THAT(err_, HasSubstr("[server 1] saved\n"));
  EXPECT_LT(err_.rfind("] done"), err_.find("] saved"));
  EXPECT_EQ(ReadFile(dir_ / "list0"), "server-0.json\nserver-1.json\n");
}

TEST_F(ServerLauncherTest, TheRecordOfAnEarlierServerIsNotBelieved) {
  testing::WriteFile(dir_ / "servers/server-0.json", R"({"endpoint":"127.0.0.1:1","pid":1})");
  trainer_script_ = "echo $SERVERS";
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(out_, "127.0.0.1:4710\n");
}

TEST_F(ServerLauncherTest, ServersAtKnownPlacesAreNotWaitedFor) {
  options_.endpoints = {"node1:7164"};
  server_script_ = "trap 'exit 0' TERM; echo \"at $BIND\" >&2; echo >b; " + std::string(kWait);
  trainer_script_ = "read x <b; echo $SERVERS";
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(out_, "node1:7164\n");
  EXPECT_THAT(err_, HasSubstr("[server 0] at node1:7164\n"));
}

TEST_F(ServerLauncherTest, AServerThatDiesComesBackWhereItWas) {
  options_.servers = options_.trainers = 2;
  trainer_script_ = kKillServer;
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(ReadFile(dir_ / "back"), "1 at 127.0.0.1:4711\n");
  EXPECT_THAT(err_,
              HasSubstr("paceline train: server 1 was ended by SIGKILL; starting it again\n"));
  EXPECT_THAT(err_, HasSubstr("paceline train: 1 process was started again\n"));
}

TEST_F(ServerLauncherTest, AServerThatCannotBeHelpedEndsTheRunWithItsMessage) {
  server_script_ = "echo 'error: log.3 is damaged at byte 77' >&2; exit 13";
  trainer_script_ = "echo started";
  EXPECT_EQ(Run(), 13);
  EXPECT_THAT(err_, HasSubstr("server 0 ended with exit code 13; ending the run: "
                              "error: log.3 is damaged at byte 77\n"));
  EXPECT_EQ(out_, "");
}

TEST_F(ServerLauncherTest, AServerThatCannotComeBackStopsTheTrainers) {
  options_.servers = options_.trainers = 2;
  server_script_ = "if [ -n \"$BIND\" ]; then exit 16; fi; " + server_script_;
  trainer_script_ = std::string("if [ $RANK = 1 ]; then exec sleep 1000; fi; ") + kKillServer;
  EXPECT_EQ(Run(), 16);
  EXPECT_THAT(err_, HasSubstr("server 1 ended with exit code 16; ending the run\n"));
  EXPECT_THAT(err_, HasSubstr("[server 0] saved\n"));
}

TEST_F(ServerLauncherTest, ATrainerThatIsKilledIsStartedAgain) {
  options_.trainers = 2;
  trainer_script_ = "if [ $RANK = 1 ] && [ ! -e once ]; then touch once; kill -9 $$; fi";
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(err_, HasSubstr("trainer 1 was ended by SIGKILL; starting it again\n"));
}

TEST_F(ServerLauncherTest, ATrainerWithBadDataEndsTheRun) {
  options_.trainers = 2;
  trainer_script_ = "if [ $RANK = 0 ]; then exec sleep 1000; fi; echo 'error: line 7' >&2; exit 12";
  EXPECT_EQ(Run(), 12);
  EXPECT_THAT(err_,
              HasSubstr("trainer 1 ended with exit code 12; ending the run: error: line 7\n"));
  EXPECT_THAT(err_, HasSubstr("[server 0] saved\n"));
}

TEST_F(ServerLauncherTest, RestartsAreCounted) {
  options_.restarts = 2;
  trainer_script_ = "echo x >>starts; kill -9 $$";
  EXPECT_EQ(Run(), 137);
  EXPECT_EQ(ReadFile(dir_ / "starts"), "x\nx\nx\n");
  EXPECT_THAT(err_, HasSubstr("trainer 0 was ended by SIGKILL; no restarts left, ending the run"));
}

TEST_F(ServerLauncherTest, AServerThatEndsWellTooEarlyIsStillMissing) {
  options_.restarts = 0;
  server_script_ = "exit 0";
  EXPECT_EQ(Run(), 75);
}

TEST_F(ServerLauncherTest, WhoDoesNotStopIsKilled) {
  options_.trainers = 2;
  options_.grace = options_.server_grace = 20ms;
  server_script_ = "trap '' TERM; " + ready_ + kWait;
  trainer_script_ =
      "if [ $RANK = 0 ]; then trap '' TERM; echo >b; exec sleep 1000; fi; read x <b; exit 12";
  EXPECT_EQ(Run(), 12);
  EXPECT_THAT(err_, HasSubstr("trainer 0 did not stop within 0.02 s\n"));
  EXPECT_THAT(err_, HasSubstr("server 0 did not stop within 0.02 s\n"));
}

TEST_F(ServerLauncherTest, AFailedLastSnapshotIsTheExitCode) {
  server_script_ = "trap 'exit 16' TERM; " + ready_ + kWait;
  EXPECT_EQ(Run(), 16);
  EXPECT_THAT(err_, HasSubstr("server 0 ended with exit code 16 while stopping\n"));
}

TEST_F(ServerLauncherTest, CtrlCEndsTrainersThenServers) {
  trainer_script_ = std::string("trap 'echo stopped >&2; exit 0' INT; kill -INT $PPID; ") + kWait;
  EXPECT_EQ(Run(), 0);
  EXPECT_LT(err_.find("[trainer 0] stopped"), err_.find("[server 0] saved"));
  EXPECT_THAT(err_, HasSubstr("SIGINT: the trainers save and stop, then the servers"));
}

TEST_F(ServerLauncherTest, CtrlCBeforeTheServersAreReadyStartsNoTrainer) {
  server_script_ = std::string("trap 'exit 0' TERM; kill -INT $PPID; ") + kWait;
  trainer_script_ = "echo started";
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(out_, "");
}

TEST_F(ServerLauncherTest, ASecondCtrlCKills) {
  options_.trainers = 2;
  trainer_script_ = std::string("if [ $RANK = 1 ]; then trap 'echo >b' INT; echo >a; ") + kWait +
                    "; fi; trap '' INT; read x <a; kill -INT $PPID; read x <b; "
                    "kill -INT $PPID; exec sleep 1000";
  EXPECT_EQ(Run(), 130);
  EXPECT_THAT(err_, Not(HasSubstr("saved")));
}

// The coordinator's script; it is ready when its record is there.
constexpr char kCoordinatorReady[] =
    "printf '{\"endpoint\":\"127.0.0.1:99\",\"pid\":%d}' $$ >new-c; mv new-c coordinator.json; ";

TEST_F(ServerLauncherTest, TheCoordinatorSaysWhenAnElasticRunIsComplete) {
  options_.trainers = 3;
  options_.start_trainers = 2;
  options_.coordinator = [this](bool) {
    return Shell(kCoordinatorReady + std::string("read x <a"));
  };
  // Trainer 1 leaves; trainer 0 ends the run, and writes that it has.
  trainer_script_ =
      "echo $RANK $COORDINATOR >>trainers; if [ $RANK = 0 ]; then echo >a; "
      "echo '{\"type\":\"end\",\"step\":7}' >>events.jsonl; fi";
  EXPECT_EQ(Run(), 0);
  const std::string trainers = ReadFile(dir_ / "trainers");
  EXPECT_THAT(trainers, HasSubstr("0 127.0.0.1:99\n"));
  EXPECT_THAT(trainers, HasSubstr("1 127.0.0.1:99\n"));
  EXPECT_THAT(trainers, Not(HasSubstr("2 ")));
  EXPECT_THAT(err_, HasSubstr("[server 0] saved\n"));
}

TEST_F(ServerLauncherTest, ATrainerIsStartedForTheEndThatNobodyWrote) {
  options_.coordinator = [this](bool) {
    return Shell(kCoordinatorReady + std::string("read x <a"));
  };
  // The first one is killed when the last sample is done. Whether the next one still gets the
  // coordinator, which ends as well, is up to which of the two deaths is seen first.
  trainer_script_ =
      "if mkdir died; then echo >a; kill -9 $$; fi; "
      "echo '{\"type\":\"end\",\"step\":7}' >>events.jsonl; echo ended";
  testing::WriteFile(dir_ / "events.jsonl", "{\"type\":\"end\",\"step\":5}\n");  // of before
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(out_, "ended\n");
}

TEST_F(ServerLauncherTest, ACoordinatorThatDiesIsStartedAgainAndOneThatGivesUpEndsTheRun) {
  options_.coordinator = [this](bool restarted) {
    return Shell(kCoordinatorReady + std::string(restarted ? "read x <a; exit 14" : "kill -9 $$"));
  };
  trainer_script_ = "echo >a; exec sleep 1000";
  EXPECT_EQ(Run(), 14);
  EXPECT_THAT(err_, HasSubstr("the coordinator was ended by SIGKILL; starting it again\n"));
  EXPECT_THAT(err_, HasSubstr("the coordinator ended with exit code 14; ending the run"));
}

TEST_F(ServerLauncherTest, ChaosKillsAtAStep) {
  options_.chaos = {{.kind = ChaosKind::kKill, .server = true, .worker = 0, .step = 5}};
  trainer_script_ = "read x <a";  // server 0 is back
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(err_, HasSubstr("chaos: kill server 0 at step 5\n"));
  EXPECT_EQ(ReadFile(dir_ / "back"), "0 at 127.0.0.1:4710\n");
}

TEST_F(ServerLauncherTest, ChaosFollowsTheRecordedSteps) {
  options_.chaos = {{.kind = ChaosKind::kKill, .worker = 0, .step = 7}};
  server_script_ =
      "trap 'exit 0' TERM; printf '{\"endpoint\":\"a:1\",\"pid\":%d}' $$ >new; "
      "mv new servers/server-0.json; " +
      std::string(kWait);
  trainer_script_ =
      "if [ -e once ]; then exit 0; fi; touch once; "
      "echo '{\"type\":\"step\",\"step\":7,\"samples\":56,\"seconds\":1,\"loss\":1,"
      "\"accuracy\":1,\"lr\":1}' >>events.jsonl; exec sleep 1000";
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(err_, HasSubstr("chaos: kill worker 0 at step 7\n"));
  EXPECT_THAT(err_, HasSubstr("trainer 0 was ended by SIGKILL; starting it again\n"));
}

}  // namespace
}  // namespace paceline::job

// `paceline launch` with real processes. A program stands for ssh and runs its command here; one
// test uses a real sshd.
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <gmock/gmock.h>

#include "base/unique_fd.h"
#include "support/processes.h"
#include "support/program.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kDeadline = 240s;  // only against hanging
constexpr auto kEnding = 20s;     // what has been killed may take a moment to be gone

std::string ReadProc(pid_t pid, const char* file) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The processes, other than this one, that have `text` in their command line.
std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size() || pid == ::getpid()) continue;
    if (ReadProc(pid, "cmdline").find(text) != std::string::npos) found.push_back(pid);
  }
  return found;
}

pid_t WorkerOf(const std::string& run, const std::string& rank) {
  const std::string variable = std::string("PACELINE_RANK=") + rank + '\0';
  for (const pid_t pid : ProcessesWith(run)) {
    if (ReadProc(pid, "comm").starts_with("paceline-worker") &&
        ReadProc(pid, "environ").find(variable) != std::string::npos) {
      return pid;
    }
  }
  ADD_FAILURE() << "no worker of rank " << rank;
  return -1;
}

void ExpectNothingLeft(const std::string& text) {
  for (const pid_t pid : ProcessesWith(text)) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process.valid()) continue;
    pollfd end{process.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(kEnding).count())), 1)
        << "still there: " << pid << " " << ReadProc(pid, "cmdline");
  }
}

std::vector<std::string> LaunchOf(std::vector<std::string> flags,
                                  const std::vector<std::string>& training) {
  flags.insert(flags.begin(), "launch");
  flags.emplace_back("--");
  flags.insert(flags.end(), training.begin(), training.end());
  return flags;
}

std::vector<std::string> EndlessTraining(const std::string& run) {
  return SmallTraining(run, {"--steps", "1000000", "--train-samples", "50000", "--shards", "2"});
}

void WaitForFirstStep(Subprocess& child) {
  for (;;) {
    const auto line = child.ReadLine(kDeadline);
    ASSERT_THAT(line, IsOk()) << "while waiting for the first step";
    if (line->find("samples/s") != std::string::npos) return;
  }
}

struct Ended {
  int code = -1;
  std::string output;
};

Ended WaitForEnd(Subprocess& child) {
  const auto rest = child.ReadAll(kDeadline);
  const auto state = child.Wait(kDeadline);
  EXPECT_THAT(rest, IsOk());
  EXPECT_THAT(state, IsOk());
  return {state.ok() ? state->code : -1, rest.ok() ? rest->out : ""};
}

// What comes out must not depend on who started the workers.
std::string HashOnOneMachine(const TempDir& dir) {
  const CommandResult result =
      RunPaceline(SmallTraining(dir / "one", {"--steps", "4", "--workers", "2", "--shards", "2"}));
  EXPECT_EQ(result.state.code, 0) << result.err;
  return LastJson(result.out)["params_hash"];
}

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    WriteFile(ssh_, "#!/bin/sh\necho \"$3\" >> " + hosts_ +
                        "\n"
                        "if [ \"$3\" = 127.0.0.9 ]; then\n"
                        "  echo 'ssh: connect to host 127.0.0.9: Connection refused' >&2\n"
                        "  exit 255\n"
                        "fi\n"
                        "shift 4\nexec sh -c \"$*\"\n");
    std::filesystem::permissions(ssh_, std::filesystem::perms::owner_all);
  }

  std::vector<std::string> Launch(const std::string& hosts,
                                  const std::vector<std::string>& training) const {
    return LaunchOf({"--ssh", ssh_, "--host", hosts}, training);
  }

  TempDir dir_;
  const std::string ssh_ = dir_ / "ssh";
  const std::string hosts_ = dir_ / "asked-hosts";  // that the program above was asked for
  const std::string run_ = dir_ / "run";
};

TEST_F(LaunchTest, TwoHostsGiveTheBitsOfOneMachine) {
  const std::string expected = HashOnOneMachine(dir_);
  const std::vector<std::string> settings{"--steps", "4", "--shards", "2"};
  const CommandResult remote =
      RunPaceline(Launch("127.0.0.2,127.0.0.3", SmallTraining(run_, settings)));
  ASSERT_EQ(remote.state.code, 0) << remote.err;
  EXPECT_EQ(LastJson(remote.out)["params_hash"], expected);
  EXPECT_EQ(LastJson(remote.out)["workers"], 2);
  EXPECT_THAT(remote.err, HasSubstr("[w0@127.0.0.2] "));
  std::string asked = ReadFile(hosts_);
  EXPECT_THAT(asked, AllOf(HasSubstr("127.0.0.2\n"), HasSubstr("127.0.0.3\n")));

  const CommandResult mixed =
      RunPaceline(Launch("localhost:1,127.0.0.3:1", SmallTraining(dir_ / "mixed", settings)));
  ASSERT_EQ(mixed.state.code, 0) << mixed.err;
  EXPECT_EQ(LastJson(mixed.out)["params_hash"], expected);
  asked = ReadFile(hosts_);
  EXPECT_THAT(asked, Not(HasSubstr("localhost")));
  ExpectNothingLeft(dir_.path());
}

TEST_F(LaunchTest, AHostFileAndADirectoryAreEnough) {
  WriteFile(dir_ / "hosts", "127.0.0.2 slots=2  # both here\n");
  std::vector<std::string> training = SmallTraining("relative-run", {"--steps", "1"});
  training.erase(training.begin());  // the word `train` may be left out
  const CommandResult result = RunPaceline(
      LaunchOf({"--ssh", ssh_, "--hosts", dir_ / "hosts", "--directory", dir_.path()}, training));
  ASSERT_EQ(result.state.code, 0) << result.err;
  EXPECT_EQ(LastJson(result.out)["workers"], 2);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "relative-run/config.toml"));
}

TEST_F(LaunchTest, AKilledWorkerIsTheRootCauseAndNothingStays) {
  Subprocess launcher = StartPaceline(Launch("127.0.0.2,127.0.0.3", EndlessTraining(run_)));
  WaitForFirstStep(launcher);
  const pid_t worker = WorkerOf(run_, "1");
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  const Ended ended = WaitForEnd(launcher);
  EXPECT_EQ(ended.code, 128 + SIGKILL) << ended.output;
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("paceline launch FAILED"), HasSubstr("Root cause"),
                    HasSubstr("  host      : 127.0.0.3\n  rank      : 1 (local rank: 0)"),
                    HasSubstr("  signal    : 9 (SIGKILL)")));
  ExpectNothingLeft(run_);
}

TEST_F(LaunchTest, CtrlCSavesOnAllHosts) {
  Subprocess launcher = StartPaceline(Launch("localhost,127.0.0.3", EndlessTraining(run_)));
  WaitForFirstStep(launcher);
  launcher.Signal(SIGINT);
  const Ended ended = WaitForEnd(launcher);
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_TRUE(LastJson(ended.output)["interrupted"]);
  EXPECT_TRUE(std::filesystem::exists(run_ + "/checkpoints"));
  ExpectNothingLeft(run_);
}

TEST_F(LaunchTest, AKilledLauncherLeavesNoWorker) {
  Subprocess launcher = StartPaceline(Launch("127.0.0.2,127.0.0.3", EndlessTraining(run_)));
  WaitForFirstStep(launcher);
  launcher.Signal(SIGKILL);
  ASSERT_THAT(launcher.Wait(kDeadline), IsOk());
  ExpectNothingLeft(run_);
}

TEST_F(LaunchTest, AHostThatSshCannotReachIsNamed) {
  const CommandResult result = RunPaceline(Launch("127.0.0.2,127.0.0.9", EndlessTraining(run_)));
  EXPECT_EQ(result.state.code, 255) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("  host      : 127.0.0.9\n"),
                                HasSubstr("  error     : ssh: connect to host 127.0.0.9")));
  ExpectNothingLeft(run_);
}

TEST_F(LaunchTest, ADryRunShowsCommandsAndStartsNothing) {
  std::vector<std::string> arguments = Launch("localhost,127.0.0.3", SmallTraining(run_));
  arguments.insert(arguments.begin() + 1, {"--dry-run", "--export", "LAUNCH_TEST"});
  const CommandResult result = RunPaceline(arguments, {{"LAUNCH_TEST", "it is"}});
  ASSERT_EQ(result.state.code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
  EXPECT_THAT(result.out, AllOf(HasSubstr("PACELINE_RANK=0"), HasSubstr("PACELINE_RANK=1"),
                                HasSubstr("PACELINE_COORDINATOR=127.0.0.1:PORT"),
                                HasSubstr("LAUNCH_TEST=it is"),
                                HasSubstr("\n" + ssh_ + " -o BatchMode=yes 127.0.0.3 -- ")));
  EXPECT_THAT(result.out, Not(ContainsRegex("[0-9a-f]{64}")));
  EXPECT_FALSE(std::filesystem::exists(hosts_));
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(LaunchTest, AnAllocationIsUsedAndNamed) {
  const std::vector<std::string> arguments =
      LaunchOf({"--dry-run", "--bind", "127.0.0.1"}, SmallTraining(run_));
  const CommandResult slurm =
      RunPaceline(arguments, {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}});
  EXPECT_EQ(slurm.state.code, 0);
  EXPECT_EQ(slurm.err, "Slurm allocation: 4 workers on 2 hosts, first n1\n");
  EXPECT_EQ(std::count(slurm.out.begin(), slurm.out.end(), '\n'), 4);

  WriteFile(dir_ / "nodes", "n1\nn2\nn1\n");
  const CommandResult pbs = RunPaceline(arguments, {{"PBS_NODEFILE", dir_ / "nodes"}});
  EXPECT_EQ(pbs.state.code, 0);
  EXPECT_EQ(pbs.err, "PBS allocation: 3 workers on 2 hosts, first n1\n");
}

TEST_F(LaunchTest, MistakesAreRefusedBeforeAnythingStarts) {
  const auto launch = [&](const std::string& hosts, const std::vector<std::string>& more) {
    return RunPaceline(Launch(hosts, SmallTraining(run_, more)));
  };
  ExpectError(RunPaceline(LaunchOf({}, SmallTraining(run_))), 2, "which hosts?");
  ExpectError(RunPaceline({"launch", "--host", "a"}), 2, "which training?");
  ExpectError(RunPaceline(LaunchOf({"--host", "a"}, {})), 2, "which MODEL?");
  ExpectError(RunPaceline(LaunchOf({"--host", "a"}, {"no-such-model"})), 2, "no-such-model");
  ExpectError(RunPaceline(LaunchOf({"--host", "a", "--hosts", "b"}, {"vgg16"})), 2, "--host");
  ExpectError(RunPaceline(LaunchOf({"--hosts", dir_ / "none"}, {"vgg16"})), 2, dir_ / "none");
  ExpectError(RunPaceline(LaunchOf({"--host", "127.0.0.2", "--export", "NOT_SET_X"}, {"vgg16"})), 2,
              "NOT_SET_X");
  ExpectError(RunPaceline(LaunchOf({"--host", "127.0.0.2", "--bind", "0.0.0.0"}, {"vgg16"})), 2,
              "--bind 0.0.0.0");
  ExpectError(RunPaceline(LaunchOf({"--host", "no-such-host.invalid"}, {"vgg16"})), 2, "--bind");
  ExpectError(launch("-x", {}), 2, "-x");
  ExpectError(launch("127.0.0.2:2", {"--workers", "3"}), 2, "--workers 3");
  ExpectError(launch("127.0.0.2:2", {"--shards", "1"}), 2, "--shards 1");
  ExpectError(launch("127.0.0.2:2", {"--engine", "mpi"}), 2, "mpirun");
  ExpectError(launch("127.0.0.2,127.0.0.3", {"--bind", "127.0.0.1"}), 2, "--bind");
  ExpectError(
      RunPaceline(LaunchOf({"--host", "a"}, SmallTraining(run_)),
                  {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "9"}}),
      2, "paceline train");
  EXPECT_FALSE(std::filesystem::exists(hosts_));
}

// An sshd of our own on a free port of loopback, with keys of its own. The hosts node1 and node2
// exist in its client's configuration only.
class RealSshTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {kSshd, "/usr/bin/ssh", "/usr/bin/ssh-keygen"}) {
      if (!std::filesystem::exists(program)) GTEST_SKIP() << "skipped: there is no " << program;
    }
    const std::string problem = StartServer();
    if (!problem.empty()) GTEST_SKIP() << "skipped: sshd does not run here: " << problem;
    WriteClientConfig();
    const auto login =
        RunCommand({.argv = {"ssh", "-F", config_, "-o", "BatchMode=yes", "node1", "true"},
                    .pipe_stderr = true},
                   60s);
    ASSERT_THAT(login, IsOk());
    if (!login->state.Success()) GTEST_SKIP() << "skipped: sshd lets nobody in: " << login->err;
  }

  std::vector<std::string> Launch(const std::vector<std::string>& training) const {
    return LaunchOf({"--ssh", "ssh -F " + config_, "--host", "node1,node2", "--bind", "127.0.0.1"},
                    training);
  }

  TempDir dir_;
  const std::string run_ = dir_ / "run";

 private:
  static constexpr char kSshd[] = "/usr/sbin/sshd";

  // Empty when it listens, else what it said last.
  std::string StartServer() {
    for (const char* key : {"host_key", "user_key"}) {
      const auto made = RunCommand(
          {.argv = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir_ / key}}, 60s);
      if (!made.ok() || !made->state.Success()) return "ssh-keygen failed";
    }
    WriteFile(dir_ / "sshd_config", "HostKey " + (dir_ / "host_key") + "\nAuthorizedKeysFile " +
                                        (dir_ / "user_key.pub") +
                                        "\nListenAddress 127.0.0.1\nPidFile none\nUsePAM no\n"
                                        "StrictModes no\nPasswordAuthentication no\n");
    std::error_code ignored;
    if (::geteuid() == 0) std::filesystem::create_directory("/run/sshd", ignored);
    std::string last;
    for (int attempt = 0; attempt < 5; ++attempt) {  // somebody else may take the port first
      port_ = FreePorts(1).front();
      auto started =
          Subprocess::Start({.argv = {"sh", "-c", "exec \"$@\" 2>&1", "sh", kSshd, "-D", "-e", "-f",
                                      dir_ / "sshd_config", "-p", std::to_string(port_)}});
      if (!started.ok()) return started.status().message();
      for (auto line = started->ReadLine(60s); line.ok(); line = started->ReadLine(60s)) {
        last = *line;
        if (last.find("Server listening") == std::string::npos) continue;
        server_.emplace(std::move(*started));
        return "";
      }
    }
    return last;
  }

  void WriteClientConfig() {
    WriteFile(config_, "Host node1 node2\nHostName 127.0.0.1\nPort " + std::to_string(port_) +
                           "\nUser " + ::getpwuid(::geteuid())->pw_name + "\nIdentityFile " +
                           (dir_ / "user_key") +
                           "\nIdentitiesOnly yes\nUserKnownHostsFile /dev/null\n"
                           "StrictHostKeyChecking no\nLogLevel ERROR\n");
  }

  const std::string config_ = dir_ / "ssh_config";
  std::uint16_t port_ = 0;
  std::optional<Subprocess> server_;
};

TEST_F(RealSshTest, TwoHostsGiveTheBitsOfOneMachine) {
  const CommandResult result =
      RunPaceline(Launch(SmallTraining(run_, {"--steps", "4", "--shards", "2"})));
  ASSERT_EQ(result.state.code, 0) << result.err;
  EXPECT_EQ(LastJson(result.out)["params_hash"], HashOnOneMachine(dir_));
  EXPECT_THAT(result.err, HasSubstr("[w0@node1] "));
  ExpectNothingLeft(run_);
}

TEST_F(RealSshTest, AKilledWorkerIsTheRootCauseAndNothingStays) {
  Subprocess launcher = StartPaceline(Launch(EndlessTraining(run_)));
  WaitForFirstStep(launcher);
  const pid_t worker = WorkerOf(run_, "1");
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  const Ended ended = WaitForEnd(launcher);
  EXPECT_EQ(ended.code, 128 + SIGKILL) << ended.output;
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("  host      : node2\n  rank      : 1"), HasSubstr("(SIGKILL)")));
  ExpectNothingLeft(run_);
}

TEST_F(RealSshTest, CtrlCSavesAndAKilledLauncherLeavesNoWorker) {
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string run = run_ + std::to_string(signal);
    Subprocess launcher = StartPaceline(Launch(EndlessTraining(run)));
    WaitForFirstStep(launcher);
    launcher.Signal(signal);
    if (signal == SIGKILL) {
      ASSERT_THAT(launcher.Wait(kDeadline), IsOk());
    } else {
      const Ended ended = WaitForEnd(launcher);
      EXPECT_EQ(ended.code, 0) << ended.output;
      EXPECT_TRUE(LastJson(ended.output)["interrupted"]);
    }
    ExpectNothingLeft(run);
  }
}

}  // namespace
}  // namespace paceline::testing

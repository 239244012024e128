#include "job/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>

#include "job/ssh_command.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::ReadFile;
using testing::TempDir;

// Real processes. Scripts order events with named pipes: opening one waits for the other side.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    EXPECT_EQ(::mkfifo((dir_ / "a").c_str(), 0600), 0);
    EXPECT_EQ(::mkfifo((dir_ / "b").c_str(), 0600), 0);
    options_.cgroup_root = dir_.path().string();
  }

  // `script` runs where the pipes "a" and "b" are.
  ChildSpec Shell(std::uint64_t rank, const std::string& script) const {
    return {.argv = {"sh", "-c", "cd " + dir_.path().string() + "; " + script},
            .label = "w" + std::to_string(rank),
            .rank = Rank(rank),
            .local_rank = rank,
            .host = "node1"};
  }

  // The exit code; out_ and err_ are what was printed.
  int Run(std::vector<ChildSpec> children) {
    const UniqueFd out(::open((dir_ / "out").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    const UniqueFd err(::open((dir_ / "err").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    options_.out_fd = out.get();
    options_.err_fd = err.get();
    const auto code = RunLauncher(options_, std::move(children));
    EXPECT_THAT(code, IsOk());
    out_ = ReadFile(dir_ / "out");
    err_ = ReadFile(dir_ / "err");
    return code.ok() ? *code : -1;
  }

  TempDir dir_;
  LauncherOptions options_;
  std::string out_;
  std::string err_;
};

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(LauncherTest, NothingToRunIsDone) { EXPECT_EQ(Run({}), 0); }

TEST_F(LauncherTest, OnlyRankZerosStdoutStaysAsItIs) {
  EXPECT_EQ(Run({Shell(0, "echo '{\"json\": 0}'; echo note0 >&2"),
                 Shell(1, "echo '{\"json\": 1}'; printf note1 >&2")}),
            0);
  EXPECT_EQ(out_, "{\"json\": 0}\n");
  EXPECT_THAT(err_, HasSubstr("[w0] note0\n"));
  EXPECT_THAT(err_, HasSubstr("[w1] {\"json\": 1}\n"));
  EXPECT_THAT(err_, HasSubstr("[w1] note1\n"));  // the last line may lack its end
}

TEST_F(LauncherTest, RankZeroMayKeepTheTerminal) {
  options_.inherit_first_stderr = true;
  const UniqueFd before(::dup(2));
  const UniqueFd terminal(::open((dir_ / "terminal").c_str(), O_CREAT | O_WRONLY, 0600));
  ASSERT_EQ(::dup2(terminal.get(), 2), 2);
  const int code = Run({Shell(0, "printf '\\r42%%' >&2"), Shell(1, "echo note1 >&2")});
  ASSERT_EQ(::dup2(before.get(), 2), 2);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(ReadFile(dir_ / "terminal"), "\r42%");
  EXPECT_EQ(err_, "[w1] note1\n");
}

TEST_F(LauncherTest, ChildrenSeeTheirEnvironment) {
  ChildSpec child = Shell(0, "echo $PACELINE_RANK");
  child.environment["PACELINE_RANK"] = "7";
  EXPECT_EQ(Run({child}), 0);
  EXPECT_EQ(out_, "7\n");
}

TEST_F(LauncherTest, LinesAreNeverTorn) {
  const std::string script =
      "i=0; while [ $i -lt 500 ]; do printf 'left-' >&2; echo right >&2; i=$((i+1)); done";
  EXPECT_EQ(Run({Shell(0, script), Shell(1, script)}), 0);
  std::istringstream lines(err_);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_THAT(line, AnyOf("[w0] left-right", "[w1] left-right"));
  }
  EXPECT_EQ(count, 1000U);
}

TEST_F(LauncherTest, OneFailureStopsTheOthers) {
  EXPECT_EQ(Run({Shell(0, "exec sleep 1000"), Shell(1, "echo 'error: boom' >&2; exit 12"),
                 Shell(2, "exec sleep 1000")}),
            12);
  EXPECT_THAT(err_, HasSubstr("paceline: rank 1 ended with exit code 12; stopping 2 others\n"));
  EXPECT_THAT(err_, HasSubstr("  host      : node1\n  rank      : 1 (local rank: 1)\n"
                              "  exit code : 12 (pid: "));
  EXPECT_THAT(err_, HasSubstr("  signal    : none\n  error     : error: boom\n"));
  EXPECT_THAT(err_, HasSubstr("2 other ranks were stopped by the launcher\n"));
}

TEST_F(LauncherTest, WhoDoesNotStopIsKilled) {
  options_.grace = 20ms;
  EXPECT_EQ(
      Run({Shell(0, "trap '' TERM; echo >a; exec sleep 1000"), Shell(1, "read x <a; exit 3")}), 3);
  EXPECT_THAT(err_, HasSubstr("paceline: rank 0 did not stop within 0.02 s\n"));
  EXPECT_THAT(err_, HasSubstr("rank      : 1 "));
}

TEST_F(LauncherTest, ASignalIsTheRootCauseNotTheLostPeer) {
  // Rank 1 waits for the end of rank 0, which closes the pipe.
  EXPECT_EQ(Run({Shell(0, "exec 9>a; echo 'error: lost rank 1' >&2; exit 75"),
                 Shell(1, "trap '' TERM; cat <a; kill -9 $$")}),
            137);
  EXPECT_THAT(err_, HasSubstr("exit code : 137"));
  EXPECT_THAT(err_, HasSubstr("signal    : 9 (SIGKILL)\n"));
  EXPECT_THAT(err_,
              HasSubstr("Other failures:\n  rank 0 on node1, exit code 75: error: lost rank 1"));
}

TEST_F(LauncherTest, ALackOfMemoryIsNamed) {
  std::filesystem::create_directories(dir_ / "proc/self");
  std::filesystem::create_directories(dir_ / "sys/fs/cgroup");
  testing::WriteFile(dir_ / "proc/self/cgroup", "0::/\n");
  testing::WriteFile(dir_ / "sys/fs/cgroup/memory.events", "oom_kill 4\n");
  EXPECT_EQ(Run({Shell(0, "echo 'oom_kill 5' >sys/fs/cgroup/memory.events; kill -9 $$")}), 137);
  EXPECT_THAT(err_, HasSubstr("9 (SIGKILL), out of memory: the kernel killed it\n"));
}

TEST_F(LauncherTest, AnOldKillForMemoryIsNotBlamed) {
  std::filesystem::create_directories(dir_ / "proc/self");
  std::filesystem::create_directories(dir_ / "sys/fs/cgroup");
  testing::WriteFile(dir_ / "proc/self/cgroup", "0::/\n");
  testing::WriteFile(dir_ / "sys/fs/cgroup/memory.events", "oom_kill 4\n");
  EXPECT_EQ(Run({Shell(0, "kill -9 $$")}), 137);
  EXPECT_THAT(err_, Not(HasSubstr("out of memory")));
}

TEST_F(LauncherTest, AMissingProgramIsAFailureWithAName) {
  ChildSpec child = Shell(0, "");
  child.argv = {"no-such-program-here"};
  EXPECT_EQ(Run({child}), 127);
  EXPECT_THAT(err_, HasSubstr("error     : paceline: cannot execute the program: no-such-program"));
}

TEST_F(LauncherTest, SigintReachesEveryChildOnce) {
  const std::string wait = "while :; do sleep 1000 & wait $!; done";
  EXPECT_EQ(Run({Shell(0, "trap 'echo saved >&2; exit 0' INT; read x <a; kill -INT $PPID; " + wait),
                 Shell(1, "trap 'echo saved >&2; exit 0' INT; echo >a; " + wait)}),
            0);
  EXPECT_EQ(Count(err_, "[w0] saved\n"), 1U);
  EXPECT_EQ(Count(err_, "[w1] saved\n"), 1U);
  EXPECT_THAT(err_, HasSubstr("paceline: SIGINT: stopping 2 workers; Ctrl-C again kills them\n"));
  EXPECT_THAT(err_, Not(HasSubstr("FAILED")));
}

TEST_F(LauncherTest, ASecondSigintKills) {
  const std::string wait = "while :; do sleep 1000 & wait $!; done";
  EXPECT_EQ(Run({Shell(0,
                       "trap '' INT; read x <a; kill -INT $PPID; read x <b; kill -INT $PPID; "
                       "exec sleep 1000"),
                 Shell(1, "trap 'echo >b' INT; echo >a; " + wait)}),
            130);
  EXPECT_THAT(err_, HasSubstr("paceline: rank 0 killed by a second Ctrl-C\n"));
  EXPECT_THAT(err_, HasSubstr("paceline: stopped by SIGINT\n"));
  EXPECT_THAT(err_, Not(HasSubstr("FAILED")));
}

TEST_F(LauncherTest, SigtermThatEndsTheChildrenIsNoFailure) {
  EXPECT_EQ(Run({Shell(0, "kill -TERM $PPID; exec sleep 1000"), Shell(1, "exec sleep 1000")}), 143);
  EXPECT_THAT(err_, HasSubstr("paceline: stopped by SIGTERM\n"));
  EXPECT_THAT(err_, Not(HasSubstr("FAILED")));
}

TEST_F(LauncherTest, AFailureWhileStoppingIsReported) {
  EXPECT_EQ(Run({Shell(0,
                       "trap 'echo error: disk is full >&2; exit 16' TERM; kill -TERM $PPID; "
                       "while :; do sleep 1000 & wait $!; done"),
                 Shell(1, "exec sleep 1000")}),
            16);
  EXPECT_THAT(err_, HasSubstr("error     : error: disk is full\n"));
}

TEST_F(LauncherTest, WhatAChildLeavesBehindEndsWithIt) {
  // The grandchild holds both pipes open; neither it nor they are waited for.
  EXPECT_EQ(Run({Shell(0, "sleep 1000 & echo done")}), 0);
  EXPECT_EQ(out_, "done\n");
}

TEST_F(LauncherTest, ARemoteRankGetsItsSecretAndEndsWithItsStdin) {
  testing::WriteFile(dir_ / "ssh", "#!/bin/sh\nshift 4\nexec sh -c \"$*\"\n");
  std::filesystem::permissions(dir_ / "ssh", std::filesystem::perms::owner_all);
  auto argv = BuildSshCommand({.ssh = dir_ / "ssh",
                               .host = "node2",
                               .directory = dir_.path().string(),
                               .argv = {"sh", "-c",
                                        "read s; echo got $s; trap 'echo saved; exit 0' TERM; "
                                        "echo >a; while :; do sleep 1000 & wait $!; done"},
                               .secret_on_stdin = true});
  ASSERT_THAT(argv, IsOk());
  ChildSpec remote{.argv = *argv,
                   .label = "w1@node2",
                   .rank = Rank(1),
                   .host = "node2",
                   .stdin_line = "abc",
                   .stop_with_stdin = true};
  EXPECT_EQ(Run({Shell(0, "read x <a; exit 5"), remote}), 5);
  EXPECT_THAT(err_, HasSubstr("[w1@node2] got abc\n"));
  EXPECT_THAT(err_, HasSubstr("[w1@node2] saved\n"));
}

TEST_F(LauncherTest, ChildrenDieWithTheLauncher) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);  // inherited: it ends when the last process that holds it does
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    ::close(fds[0]);
    const auto code = RunLauncher({}, {Shell(0, "echo ready >/proc/self/fd/" +
                                                    std::to_string(fds[1]) + "; exec sleep 1000")});
    ::_exit(code.ok() ? 0 : 1);
  }
  ::close(fds[1]);
  const UniqueFd held(fds[0]);
  char buffer[64];
  EXPECT_EQ(::read(held.get(), buffer, sizeof(buffer)), 6);  // "ready\n"
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(::waitpid(launcher, nullptr, 0), launcher);
  EXPECT_EQ(::read(held.get(), buffer, sizeof(buffer)), 0);
}

}  // namespace
}  // namespace paceline::job

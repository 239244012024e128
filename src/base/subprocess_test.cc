#include "base/subprocess.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(Subprocess, ExchangesLinesAndReportsTheExitCode) {
  auto child = Subprocess::Start(
      {.argv = {"sh", "-c", "read x; echo \"got $x\"; exit 13"}, .pipe_stdin = true});
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->WriteLine("hello"), IsOk());
  auto line = child->ReadLine(10s);
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(*line, "got hello");
  EXPECT_THAT(child->ReadLine(10s), StatusIs(Code::kNotFound, HasSubstr("end")));
  auto state = child->Wait(10s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 13);
  EXPECT_EQ(state->Describe(), "exit code 13");
}

TEST(Subprocess, ASignalIsReportedAsOne) {
  auto child = Subprocess::Start({.argv = {"cat"}, .pipe_stdin = true});
  ASSERT_THAT(child, IsOk());
  child->Signal(SIGKILL);
  auto state = child->Wait(10s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->signal, SIGKILL);
  EXPECT_FALSE(state->Success());
}

TEST(Subprocess, DestructorLeavesNoProcess) {
  pid_t pid = 0;
  {
    auto child = Subprocess::Start({.argv = {"cat"}, .pipe_stdin = true});
    ASSERT_THAT(child, IsOk());
    pid = child->pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(Subprocess, WritingToADeadChildIsAnErrorNotASignal) {
  auto child = Subprocess::Start({.argv = {"true"}, .pipe_stdin = true});
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->Wait(10s), IsOk());
  EXPECT_THAT(child->WriteLine("hello"), StatusIs(Code::kPeerLost, HasSubstr("reads no more")));
}

TEST(Subprocess, AGroupEndsWithItsLeader) {
  // The grandchild keeps the pipe open for ever unless it is ended as well.
  auto child = Subprocess::Start(
      {.argv = {"sh", "-c", "sleep 1000 & echo started; exit 0"}, .own_group = true});
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->ReadLine(10s), IsOk());
  ASSERT_THAT(child->Wait(10s), IsOk());
  EXPECT_THAT(child->ReadLine(10s), StatusIs(Code::kNotFound, HasSubstr("end")));
}

TEST(Subprocess, OwnGroupIsAnother) {
  auto child = Subprocess::Start({.argv = {"cat"}, .own_group = true, .pipe_stdin = true});
  ASSERT_THAT(child, IsOk());
  EXPECT_EQ(::getpgid(child->pid()), child->pid());
  child->Signal(SIGTERM);
  auto state = child->Wait(10s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->signal, SIGTERM);
}

TEST(Subprocess, IsPinnedToASetOfCpus) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(first), &allowed)) ++first;
  auto result = RunCommand(
      {.argv = {"grep", "Cpus_allowed_list", "/proc/self/status"}, .cpus = {first}}, 10s);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->out, "Cpus_allowed_list:\t" + std::to_string(first) + "\n");
}

TEST(RunCommand, CollectsBothStreamsAndReplacesEnvironment) {
  auto result = RunCommand(
      {.argv = {"sh", "-c", "echo $WORD; echo oops >&2"}, .environment = {{"WORD", "out"}}}, 10s);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "oops\n");
}

TEST(RunCommand, AMissingProgramSaysSo) {
  auto result = RunCommand({.argv = {"no-such-program-here"}}, 10s);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->state.code, 127);
  EXPECT_THAT(result->err, HasSubstr("no-such-program-here"));
}

}  // namespace
}  // namespace paceline

#include "job/failure_report.h"

#include <signal.h>

#include <vector>

#include <gmock/gmock.h>

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RankFailure Exited(std::uint64_t rank, int code, std::string error = "") {
  return {.rank = Rank(rank),
          .local_rank = rank,
          .host = "node1",
          .pid = static_cast<pid_t>(100 + rank),
          .unix_seconds = 1'700'000'000,
          .state = {.code = code},
          .error_line = std::move(error)};
}

RankFailure Signalled(std::uint64_t rank, int signal) {
  RankFailure failure = Exited(rank, -1);
  failure.state.signal = signal;
  return failure;
}

RankFailure Stopped(RankFailure failure) {
  failure.asked_to_stop = true;
  return failure;
}

TEST(LostRank, ReadsTheNumber) {
  EXPECT_EQ(LostRank("paceline-worker: error: lost rank 12: connection reset"), Rank(12));
  EXPECT_EQ(LostRank("step 4: rank 3 was lost"), Rank(3));
  EXPECT_EQ(LostRank("lost the file"), std::nullopt);
  EXPECT_EQ(LostRank("rank 3 has no data"), std::nullopt);
  EXPECT_EQ(LostRank("lost rank x"), std::nullopt);
  EXPECT_EQ(LostRank(""), std::nullopt);
}

TEST(Classify, TellsCausesFromConsequences) {
  EXPECT_EQ(Classify(Exited(0, 12)), FailureKind::kOwn);
  EXPECT_EQ(Classify(Signalled(0, SIGKILL)), FailureKind::kOwn);
  EXPECT_EQ(Classify(Signalled(0, SIGTERM)), FailureKind::kOwn);  // somebody else's signal
  EXPECT_EQ(Classify(Exited(0, 75)), FailureKind::kConsequence);
  EXPECT_EQ(Classify(Exited(0, 70, "error: lost rank 1")), FailureKind::kConsequence);
  EXPECT_EQ(Classify(Exited(1, 70, "error: rank 1 lost its data")), FailureKind::kOwn);
}

TEST(Classify, WhatTheLauncherStoppedIsNoFailureOfItsOwn) {
  EXPECT_EQ(Classify(Stopped(Signalled(0, SIGTERM))), FailureKind::kStopped);
  EXPECT_EQ(Classify(Stopped(Signalled(0, SIGINT))), FailureKind::kStopped);
  EXPECT_EQ(Classify(Stopped(Exited(0, 143))), FailureKind::kStopped);     // over ssh
  EXPECT_EQ(Classify(Stopped(Signalled(0, SIGKILL))), FailureKind::kOwn);  // not ours
  EXPECT_EQ(Classify(Stopped(Exited(0, 16))), FailureKind::kOwn);          // could not save
  RankFailure killed = Stopped(Signalled(0, SIGKILL));
  killed.killed = true;
  EXPECT_EQ(Classify(killed), FailureKind::kStopped);
}

TEST(FindRootCause, IsTheFirstInTimeAmongEquals) {
  const std::vector<RankFailure> failures{Exited(2, 12), Exited(0, 13), Exited(1, 12)};
  EXPECT_EQ(FindRootCause(failures), 0U);
}

TEST(FindRootCause, ALostPeerIsNotTheCauseWhenThereIsABetterOne) {
  const std::vector<RankFailure> failures{Exited(0, 75, "error: lost rank 2"),
                                          Exited(1, 75, "error: lost rank 2"),
                                          Signalled(2, SIGKILL), Stopped(Signalled(3, SIGTERM))};
  EXPECT_EQ(FindRootCause(failures), 2U);
}

TEST(FindRootCause, AmongConsequencesTheFirstIsAllThereIs) {
  const std::vector<RankFailure> failures{Stopped(Signalled(1, SIGTERM)), Exited(2, 75),
                                          Exited(0, 75)};
  EXPECT_EQ(FindRootCause(failures), 1U);
}

TEST(ShellExitCode, IsWhatAShellSays) {
  EXPECT_EQ(ShellExitCode({.code = 13}), 13);
  EXPECT_EQ(ShellExitCode({.code = -1, .signal = SIGKILL}), 137);
}

TEST(RenderFailures, ShowsSixFieldsOfTheRootCauseAndTheRestBriefly) {
  RankFailure killed = Signalled(1, SIGKILL);
  killed.error_line = "allocating 3 GiB";
  killed.out_of_memory = true;
  const std::vector<RankFailure> failures{Exited(0, 75, "error: lost rank 1"), killed,
                                          Stopped(Signalled(2, SIGTERM))};
  const std::string thick(72, '='), thin(72, '-');
  EXPECT_EQ(RenderFailures("paceline", failures),
            thick + "\npaceline FAILED\n" + thin +
                "\nRoot cause (first observed failure):\n"
                "  time      : 2023-11-14 22:13:20 UTC\n"
                "  host      : node1\n"
                "  rank      : 1 (local rank: 1)\n"
                "  exit code : 137 (pid: 101)\n"
                "  signal    : 9 (SIGKILL), out of memory: the kernel killed it\n"
                "  error     : allocating 3 GiB\n" +
                thin +
                "\nOther failures:\n"
                "  rank 0 on node1, exit code 75: error: lost rank 1\n" +
                thin + "\n1 other rank was stopped by the launcher\n" + thick + "\n");
}

TEST(RenderFailures, AnExitCodeOverSshMayBeASignal) {
  const std::vector<RankFailure> failures{Exited(0, 139)};
  const std::string text = RenderFailures("paceline", failures);
  EXPECT_THAT(text, HasSubstr("exit code : 139 (pid: 100)\n  signal    : 11 (SIGSEGV)\n"));
  EXPECT_THAT(text, HasSubstr("error     : (nothing)"));
  EXPECT_THAT(text, Not(HasSubstr("Other failures")));
  EXPECT_THAT(text, Not(HasSubstr("stopped by")));
}

}  // namespace
}  // namespace paceline::job

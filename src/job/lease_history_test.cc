#include "job/lease_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "job/fake_run_test_util.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string LeaseLine(const char* type, int member, int lease, int done) {
  return fmt::format(
      R"({{"type": "{}", "member": {}, "lease": {}, "begin": {}, "count": 10, "done": {}}})", type,
      member, lease, 10 * lease, done);
}

// Two leases; worker 2 dies in the second, worker 1 continues it.
FakeRun& WriteLeases(FakeRun& run) {
  run.Start().Steps(1, 25).End(25);
  run.Member(LeaseLine("lease", 1, 0, 0))
      .Member(LeaseLine("lease", 2, 1, 0))
      .Member(LeaseLine("lease-back", 2, 1, 4))
      .Member(LeaseLine("lease-done", 1, 0, 10))
      .Member(LeaseLine("lease", 1, 1, 4));
  return run;
}

TEST(LeaseHistory, ALeaseThatWasHandedOnIsNoViolation) {
  FakeRun run;
  WriteLeases(run).Member(LeaseLine("lease-done", 1, 1, 10)).Member(R"({"type": "done"})");
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.leases.handed_on, 1U);
  EXPECT_EQ(report.leases.samples_done(), 20U);
  EXPECT_THAT(AuditText(report), HasSubstr("2 lent, 2 finished, 1 handed on; 20 samples"));
}

TEST(LeaseHistory, TwoHoldersLostProgressAndStrangersAreViolations) {
  FakeRun two, lost, stranger;
  WriteLeases(two).Member(LeaseLine("lease", 3, 1, 4));
  EXPECT_THAT(two.Kinds(), ElementsAre("lease"));
  WriteLeases(lost).Member(LeaseLine("lease-back", 1, 1, 2));
  EXPECT_THAT(lost.Kinds(), ElementsAre("lease"));
  WriteLeases(stranger).Member(LeaseLine("lease-done", 2, 1, 10));
  EXPECT_THAT(stranger.Kinds(), ElementsAre("lease"));
}

TEST(LeaseHistory, AHoleIsAViolation) {
  FakeRun hole;
  WriteLeases(hole).Member(LeaseLine("lease", 4, 3, 0));
  EXPECT_THAT(hole.Kinds(), ElementsAre("lease"));
}

TEST(LeaseHistory, AnInterruptedRunMayHaveLeasesInHand) {
  FakeRun run;
  WriteLeases(run).Member(R"({"type": "done", "why": "stopped by the user"})");
  EXPECT_THAT(run.Kinds(), IsEmpty());
}

}  // namespace
}  // namespace paceline::job

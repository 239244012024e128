#include "job/audit.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "job/fake_run_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

// w0 is killed while it writes down step 11, which w1 committed too; later w2 comes, and step 15 is
// done again.
void WriteEventful(FakeRun& run) {
  run.Member(R"({"type": "coordinator", "unix": 999, "pid": 1, "restarted": false})")
      .Member(R"({"type": "join", "unix": 1000, "member": "w0", "host": "node", "pid": 100})")
      .Member(R"({"type": "join", "unix": 1001, "member": "w1", "host": "node", "pid": 101})")
      .Members(1, 0, {2, 2})
      .Member(R"({"type": "lost", "unix": 1011, "member": "w0", "why": "connection closed"})")
      .Members(2, 11, {0, 4})
      .Member(R"({"type": "join", "unix": 1015, "member": "w2", "host": "node", "pid": 102})")
      .Members(3, 14, {0, 1, 3});
  run.Start().View(1, 0, {2, 2}).Steps(1, 10, {.generation = 1, .state = "s"});
  run.Torn(R"({"type": "step", "time": 3, "generation": 1, "st)").View(2, 11, {0, 4});
  run.Steps(12, 15, {.generation = 2, .state = "s"}).View(3, 14, {0, 1, 3});
  run.Steps(15, 25, {.generation = 3, .state = "s"}).End(25);
}

TEST(Audit, APlainRunIsExactlyOnce) {
  FakeRun run;
  run.Start().Steps(1, 25).End(25);
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.steps, 25U);
  EXPECT_EQ(report.coverage.complete_epochs, 4U);
  EXPECT_EQ(report.ended, "complete");
  EXPECT_THAT(AuditText(report), HasSubstr("audit: exactly once: OK\n"));
}

TEST(Audit, DeathsTornLinesAndRepeatedWorkAreNoViolation) {
  FakeRun run;
  WriteEventful(run);
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.generations, 3U);
  EXPECT_EQ(report.repeated_steps, 1U);
  EXPECT_EQ(report.witnessed_steps, 1U);
  EXPECT_EQ(report.torn_lines, 1U);
  EXPECT_EQ(report.hashed_steps, 24U);
}

TEST(Audit, TellsWhoDidWhat) {
  FakeRun run;
  WriteEventful(run);
  const AuditReport report = run.Report();
  EXPECT_THAT(AuditText(report), HasSubstr(R"(
MEMBER   WHERE       JOINED   GENERATION   SHARDS   STEPS   ENDED
w0       node:100    +0.0 s            1      0-1    1-11   lost: connection closed
w1       node:101    +1.0 s            1      2-3    1-11
                                       2      0-3   12-14
                                       3      0-0   15-25   done
w2       node:102   +15.0 s            3      1-3   15-25   done
)"));
  const auto json = nlohmann::json::parse(AuditJson(report));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["members"].size(), 5U);
  EXPECT_EQ(json["members"][0]["ended"], "lost: connection closed");
}

TEST(Audit, AnInterruptedAndResumedRunIsExactlyOnce) {
  FakeRun run;
  run.Start().Steps(1, 9).End(9, true).Start(9).Steps(10, 13);  // then killed at step 13
  run.Start(11).Steps(12, 20);
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.repeated_steps, 2U);
  EXPECT_EQ(report.coverage.complete_epochs, 3U);
  EXPECT_EQ(report.coverage.partial_samples, 20U);
  EXPECT_EQ(report.ended, "no record of an end");
}

TEST(Audit, RecordsMayBeginInTheMiddle) {
  FakeRun run;
  run.Start(10).Steps(11, 25).End(25);
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.first_step, 10U);
  EXPECT_EQ(report.coverage.samples, 240U);
  EXPECT_EQ(report.coverage.complete_epochs, 2U);
}

TEST(Audit, AMissingStepIsAGapAndItsSamplesAreLost) {
  FakeRun run;
  run.Start().Steps(1, 6).Steps(8, 25).End(25);
  ASSERT_THAT(run.Kinds(), ElementsAre("gap", "lost", "lost"));  // step 7 ends one epoch
  const Violation gap = run.Report().violations.kept()[0];
  EXPECT_EQ(gap.line, 8U);
  EXPECT_EQ(gap.step, 8U);
  EXPECT_THAT(gap.text, HasSubstr("no record of step 7"));
}

TEST(Audit, AViewMayWitnessOneStepButNotTwo) {
  FakeRun run;
  run.Start().View(1, 0, {4}).Steps(1, 3, {.generation = 1}).View(2, 5, {4});
  run.Steps(6, 25, {.generation = 2}).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("gap", "lost"));
}

TEST(Audit, AResumeCannotSkipSteps) {
  FakeRun run;
  run.Start().Steps(1, 3).Start(4).Steps(5, 25).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("gap", "lost"));
}

TEST(Audit, AStepTwiceInOneLineageIsADuplicate) {
  FakeRun run;
  run.Start().View(1, 0, {4}).Steps(1, 5, {.generation = 1}).Step(5, {.generation = 1});
  run.Steps(6, 25, {.generation = 1}).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("duplicate"));
}

TEST(Audit, ADuplicateWithAnotherStateIsASecondViolation) {
  FakeRun run;
  run.Start().Steps(1, 5, {.state = "s"}).Step(5, {.state = "t"}).Steps(6, 25, {.state = "s"});
  EXPECT_THAT(run.Kinds(), ElementsAre("duplicate", "state"));
}

TEST(Audit, DoingAStepAgainMustGiveTheSameBits) {
  FakeRun run;
  run.Start().View(1, 0, {4}).Steps(1, 5, {.generation = 1, .state = "s"}).View(2, 4, {0, 4});
  run.Steps(5, 25, {.generation = 2, .state = "t"});
  EXPECT_THAT(run.Kinds(), ElementsAre("state"));
}

TEST(Audit, OtherThreadsMayGiveOtherBits) {
  FakeRun run;
  run.Start(0, FakeRun::kPlan, 1).Steps(1, 5, {.state = "s"});
  run.Start(4, FakeRun::kPlan, 2).Steps(5, 25, {.state = "t"});
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("number of threads had changed")));
}

TEST(Audit, GenerationsMustIncrease) {
  FakeRun run;
  run.Start().View(2, 0, {4}).Steps(1, 5, {.generation = 2}).View(2, 3, {4});
  run.Steps(6, 25, {.generation = 2}).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("generation"));
}

TEST(Audit, GenerationsOfTheCoordinatorMustIncrease) {
  FakeRun run;
  run.Members(2, 0, {4}).Members(1, 0, {4});
  run.Start().View(2, 0, {4}).Steps(1, 25, {.generation = 2}).End(25);
  ASSERT_THAT(run.Kinds(), ElementsAre("generation"));
  EXPECT_EQ(run.Report().violations.kept()[0].file, "members.jsonl");
}

TEST(Audit, AStepNeedsTheViewOfItsGeneration) {
  FakeRun run;
  run.Start().View(1, 0, {4}).Steps(1, 5, {.generation = 1}).Steps(6, 25, {.generation = 3});
  EXPECT_THAT(run.Kinds(), ElementsAre("generation"));
}

TEST(Audit, AStepOfAnElasticRunNamesItsGeneration) {
  FakeRun run;
  run.Start().View(1, 0, {4}).Steps(1, 24, {.generation = 1}).Step(25).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("generation"));
}

TEST(Audit, TheCoordinatorsViewStandsInForOneThatWasNotWritten) {
  FakeRun run;
  run.Members(1, 0, {4}).Members(2, 4, {2, 2});
  run.Start().View(1, 0, {4}).Steps(1, 5, {.generation = 1}).Steps(5, 25, {.generation = 2});
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.repeated_steps, 1U);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("only in members.jsonl (line 2)")));
}

TEST(Audit, AReplacedLeaderMayWriteItsLastRecordLate) {
  FakeRun run;  // paused after committing step 5; the others went on from there
  run.Start().View(1, 0, {2, 2}).Steps(1, 4, {.generation = 1}).View(2, 5, {0, 4});
  run.Step(6, {.generation = 2}).Step(5, {.generation = 1}).Steps(7, 25, {.generation = 2});
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.late_records, 1U);
  EXPECT_EQ(report.witnessed_steps, 0U);
}

TEST(Audit, ALateRecordOfAStepThatWasDoneAgainDoesNotCount) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2}).Steps(1, 4, {.generation = 1}).View(2, 4, {0, 4});
  run.Steps(5, 6, {.generation = 2}).Step(5, {.generation = 1}).Steps(7, 25, {.generation = 2});
  const AuditReport report = run.Report();
  EXPECT_TRUE(report.ok()) << AuditText(report);
  EXPECT_EQ(report.late_records, 1U);
  EXPECT_EQ(report.repeated_steps, 1U);
}

TEST(Audit, ALateRecordOfAStepThatCountsAlreadyIsADuplicate) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2}).Steps(1, 5, {.generation = 1}).View(2, 5, {0, 4});
  run.Step(6, {.generation = 2}).Step(5, {.generation = 1}).Steps(7, 25, {.generation = 2});
  EXPECT_THAT(run.Kinds(), ElementsAre("duplicate"));
}

TEST(Audit, SamplesMustAdvanceAsPlanned) {
  FakeRun run;
  run.Start().Steps(1, 9).Step(10, {.samples = 161}).Step(11, {.samples = 177});
  ASSERT_THAT(run.Kinds(), ElementsAre("samples"));
  EXPECT_THAT(run.Report().violations.kept()[0].text, HasSubstr("161 samples in all, the plan"));
}

TEST(Audit, ShardsThatNobodyOwnsAreLostSamples) {
  FakeRun run;
  run.Start().View(1, 0, {3}).Steps(1, 25, {.generation = 1}).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("view", "lost", "lost", "lost", "lost"));
  EXPECT_EQ(run.Report().coverage.samples, 300U);
}

TEST(Audit, ShardsThatTwoOwnAreRepeatedSamples) {
  FakeRun run;
  run.Start();
  run.Event(R"({"type": "view", "generation": 1, "step": 0, "members": [)"
            R"({"member": "a", "rank": 0, "first_shard": 0, "end_shard": 3},)"
            R"({"member": "b", "rank": 1, "first_shard": 2, "end_shard": 4}]})");
  run.Step(1, {.generation = 1});
  ASSERT_THAT(run.Kinds(), ElementsAre("view", "repeated"));
  EXPECT_THAT(run.Report().violations.kept()[1].text, HasSubstr("on 4 sample(s) of epoch 0"));
}

TEST(Audit, LeaderAndCoordinatorMustMeanTheSameView) {
  FakeRun run;
  run.Members(1, 0, {2, 2});
  run.Start().View(1, 0, {1, 3}).Steps(1, 25, {.generation = 1}).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("view"));
}

TEST(Audit, AViewThatNeverBeganMustBeRightToo) {
  FakeRun run;
  run.Members(1, 0, {4}).Members(2, 25, {1});
  run.Start().View(1, 0, {4}).Steps(1, 25, {.generation = 1}).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("view"));
}

TEST(Audit, ResumingWithAnotherPlanIsAViolation) {
  algo::BatchPlan other = FakeRun::kPlan;
  other.seed = 8;
  FakeRun run;
  run.Start().Steps(1, 5).Start(5, other).Steps(6, 25).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("plan"));
}

TEST(Audit, ALongerPlanAfterAShortLastStepLosesSamples) {
  algo::BatchPlan short_plan = FakeRun::kPlan;
  short_plan.total_samples = 90;  // step 6 has 10 samples; the longer plan would have given it 16
  FakeRun run;
  run.Start(0, short_plan).Steps(1, 5).Step(6, {.samples = 90}).End(6).Start(6);
  run.Step(7, {.samples = 106}).Step(8, {.samples = 122});
  EXPECT_THAT(run.Kinds(), ElementsAre("lost"));
}

TEST(Audit, AStepBeyondThePlanIsAViolation) {
  FakeRun run;
  run.Start().Steps(1, 26);
  EXPECT_THAT(run.Kinds(), Contains("plan"));
}

TEST(Audit, TheEndMustBeTheLastStep) {
  FakeRun run;
  run.Start().Steps(1, 24).End(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("end"));
}

TEST(Audit, AnEarlyEndIsInterruptedOrWrong) {
  FakeRun wrong, right;
  wrong.Start().Steps(1, 24).End(24);
  EXPECT_THAT(wrong.Kinds(), ElementsAre("end"));
  right.Start().Steps(1, 24).End(24, true);
  EXPECT_THAT(right.Kinds(), IsEmpty());
}

TEST(Audit, NothingFollowsTheEndWithoutAStart) {
  FakeRun run;
  run.Start().Steps(1, 24).End(24, true).Step(25);
  EXPECT_THAT(run.Kinds(), ElementsAre("end"));
}

TEST(Audit, ManyViolationsAreCountedAndTheFirstShown) {
  FakeRun run;
  run.Start().Steps(1, 25);
  for (int i = 0; i < 300; ++i) run.Step(3);
  const AuditReport report = run.Report();
  EXPECT_EQ(report.violations.count(), 300U);
  EXPECT_EQ(report.violations.kept().size(), ViolationList::kKept);
  EXPECT_THAT(AuditText(report), HasSubstr("VIOLATED (300 violations)"));
  EXPECT_THAT(AuditText(report), HasSubstr("  and 290 more\n"));
}

TEST(Audit, RecordsWithoutAPlanAreNotUsable) {
  FakeRun none, old, bad;
  none.Step(1);
  EXPECT_THAT(Audit(none.Load()), StatusIs(Code::kBadData, HasSubstr("no start record")));
  old.Event(R"({"type": "start", "model": "m", "step": 0, "total_steps": 5})");
  EXPECT_THAT(Audit(old.Load()), StatusIs(Code::kBadData, HasSubstr("an older version")));
  bad.Start(0, {.seed = 1, .dataset_size = 0, .batch = 1, .shards = 1, .total_samples = 1});
  EXPECT_THAT(Audit(bad.Load()),
              StatusIs(Code::kBadData, HasSubstr("line 1: the dataset is empty")));
}

TEST(LoadRun, SaysWhatIsMissing) {
  const testing::TempDir dir;
  EXPECT_THAT(LoadRun(dir / "none"), StatusIs(Code::kNotFound, HasSubstr("no run directory")));
  EXPECT_THAT(LoadRun(dir.path().string()),
              StatusIs(Code::kNotFound, HasSubstr("holds no records of a run: there is no")));
}

}  // namespace
}  // namespace paceline::job

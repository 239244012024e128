#include "job/run_status.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "job/fake_run_test_util.h"
#include "job/status_view.h"
#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr double kNow = 1030;

std::string StatusFile(double unix_seconds, const std::string& state) {
  return R"({"unix": )" + std::to_string(unix_seconds) + R"(, "generation": 2, "state": ")" +
         state +
         R"(", "reason": "", "have": 1, "min": 2, "max": 4, "members": [)"
         R"({"member": "w0", "rank": 0, "host": "node", "pid": 100, "state": "running", "step": 25,)"
         R"( "phase": "backward", "phase_seconds": 0.25, "heartbeat_age_seconds": 0.5,)"
         R"( "rss_bytes": 310000000}, {"member": "w1", "rank": 1, "host": "a,\"b", "pid": 101,)"
         R"( "state": "suspect", "step": 24, "phase": "", "heartbeat_age_seconds": 2.5},)"
         R"({"member": "w2", "rank": null, "host": "x", "pid": 102, "state": "joining"}]})";
}

RunSnapshot Look(const FakeRun& run, double now = kNow) {
  run.Write();
  auto follower = RunFollower::Open(run.Path());
  EXPECT_THAT(follower, IsOk());
  EXPECT_THAT(follower->Refresh(), IsOk());
  return follower->Snapshot(now);
}

void WriteStatus(const FakeRun& run, const std::string& text) {
  run.Write();
  testing::WriteFile(run.Path() + "/status.json", text);
}

// A trainer that merges steps records one line for each push.
TEST(RunStatus, ARecordMayCoverSeveralSteps) {
  FakeRun run;
  run.Start();
  run.Event(R"({"type": "step", "unix": 100, "step": 4, "steps": 4, "samples": 64, "seconds": 2})");
  run.Event(
      R"({"type": "step", "unix": 102, "step": 8, "steps": 4, "samples": 128, "seconds": 2})");
  // Something is missing before this one: how long it took is not known.
  run.Event(
      R"({"type": "step", "unix": 106, "step": 16, "steps": 4, "samples": 256, "seconds": 2})");
  const RunSnapshot snapshot = Look(run);
  EXPECT_EQ(snapshot.step, 16U);
  EXPECT_DOUBLE_EQ(snapshot.samples_per_second.value(), 32);
  EXPECT_DOUBLE_EQ(snapshot.eta_seconds.value(), 4.5);
}

TEST(RunStatus, APlainRunNeedsOnlyItsEvents) {
  FakeRun run;
  run.Start().Steps(1, 20);
  const RunSnapshot snapshot = Look(run);
  EXPECT_EQ(snapshot.state, "running");
  EXPECT_FALSE(snapshot.over);
  EXPECT_FALSE(snapshot.elastic);
  EXPECT_EQ(snapshot.step, 20U);
  EXPECT_EQ(snapshot.total_steps, 25U);
  EXPECT_DOUBLE_EQ(snapshot.samples_per_second.value(), 160);
  EXPECT_NEAR(snapshot.eta_seconds.value(), 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(snapshot.epoch.value(), 3.2);
  EXPECT_DOUBLE_EQ(snapshot.record_age_seconds.value(), 10);
}

TEST(RunStatus, TheEndEndsItAndAResumeGoesOn) {
  FakeRun run;
  run.Start().Steps(1, 20).End(20, true);
  EXPECT_EQ(Look(run).state, "interrupted");
  EXPECT_TRUE(Look(run).over);
  run.Start(20);
  EXPECT_EQ(Look(run).state, "running");
  run.Steps(21, 25).End(25);
  EXPECT_EQ(Look(run).state, "done");
  EXPECT_TRUE(Look(run).over);
}

TEST(RunStatus, ASilentCoordinatorIsSaidToBeSilent) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2}).Steps(1, 20, {.generation = 1});
  WriteStatus(run, StatusFile(kNow - 12, "running"));
  EXPECT_DOUBLE_EQ(Look(run).coordinator_silent_seconds.value(), 12);
  EXPECT_THAT(StatusText(Look(run), kNow, TextStyle::kPlain),
              HasSubstr("coordinator silent for 12 s"));
  WriteStatus(run, StatusFile(kNow - 2, "running"));
  EXPECT_FALSE(Look(run).coordinator_silent_seconds);
  WriteStatus(run, StatusFile(kNow - 12, "done"));
  EXPECT_FALSE(Look(run).coordinator_silent_seconds) << "it may be silent when all is done";
}

TEST(RunStatus, WaitingShowsHowManyAreThere) {
  FakeRun run;
  run.Start();
  WriteStatus(run, StatusFile(kNow, "waiting"));
  EXPECT_THAT(StatusText(Look(run), kNow, TextStyle::kPlain), HasSubstr("WAITING(1/2)\n"));
}

TEST(RunStatus, LatenessIsAgainstTheFastestInTheCurrentView) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2});
  run.Steps(1, 3, {.generation = 1, .busy_seconds = {9, 1}}).View(2, 3, {2, 2});
  run.Step(4, {.generation = 2, .busy_seconds = {0.5, 0.75}});
  run.Step(5, {.generation = 2, .busy_seconds = {0.5, 1.25}});
  const RunSnapshot snapshot = Look(run);
  ASSERT_EQ(snapshot.members.size(), 2U);
  EXPECT_EQ(snapshot.members[0].status.member, "w0");
  EXPECT_DOUBLE_EQ(snapshot.members[0].lateness_seconds.value(), 0);
  EXPECT_DOUBLE_EQ(snapshot.members[1].lateness_seconds.value(), 0.5);
}

TEST(RunStatus, RecordsOfAReplacedLeaderDoNotMoveTheRunBack) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2}).Steps(1, 5, {.generation = 1}).View(2, 5, {0, 4});
  run.Steps(6, 9, {.generation = 2}).Step(6, {.generation = 1});
  EXPECT_EQ(Look(run).step, 9U);
}

TEST(RunStatus, AViewOfLeaderAndCoordinatorIsToldOnce) {
  FakeRun run;
  run.Member(R"({"type": "coordinator", "unix": 999, "pid": 1, "endpoint": "h:1"})");
  run.Member(R"({"type": "join", "unix": 1000, "member": "w0", "host": "node"})");
  run.Members(1, 0, {4}).Start().View(1, 0, {4});
  run.Member(R"({"type": "lost", "unix": 1010, "member": "w0", "why": "gone"})");
  run.Member(R"({"type": "coordinator", "unix": 1020, "pid": 2})");
  std::vector<std::string> texts;
  for (const SnapshotEvent& event : Look(run).events) texts.push_back(event.text);
  EXPECT_THAT(texts, ElementsAre("coordinator started: h:1", "started at step 0",
                                 "w0 joined from node", "generation 1: 1 member from step 0: test",
                                 "w0 lost: gone", "coordinator restarted"));
}

TEST(RunFollower, FollowsAndStartsAgainWhenTheRunIsReplaced) {
  FakeRun run;
  run.Start().Steps(1, 20);
  run.Write();
  auto follower = RunFollower::Open(run.Path());
  ASSERT_THAT(follower, IsOk());
  ASSERT_THAT(follower->Refresh(), IsOk());
  EXPECT_EQ(follower->Snapshot(kNow).step, 20U);
  run.Step(21);
  run.Write();
  ASSERT_THAT(follower->Refresh(), IsOk());
  EXPECT_EQ(follower->Snapshot(kNow).step, 21U);
  FakeRun other;
  other.Start().Steps(1, 3);
  testing::WriteFile(run.Path() + "/events.jsonl", other.events);
  ASSERT_THAT(follower->Refresh(), IsOk());
  EXPECT_EQ(follower->Snapshot(kNow).step, 3U);
}

TEST(RunFollower, SaysWhatIsMissing) {
  const testing::TempDir dir;
  EXPECT_THAT(RunFollower::Open(dir / "no"), StatusIs(Code::kNotFound, HasSubstr("no run dir")));
  auto follower = RunFollower::Open(dir.path().string());
  ASSERT_THAT(follower, IsOk());
  EXPECT_THAT(follower->Refresh(), StatusIs(Code::kNotFound, HasSubstr("holds no records")));
}

TEST(StatusView, ShowsOneScreen) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2}).Steps(1, 20, {.generation = 1, .busy_seconds = {0.5, 0.75}});
  WriteStatus(run, StatusFile(kNow, "running"));
  RunSnapshot snapshot = Look(run);
  snapshot.run = "RUN";
  EXPECT_EQ(StatusText(snapshot, kNow, TextStyle::kPlain),
            R"(run          RUN (vgg16-small)
state        RUNNING: 1 worker, 2 to 4 allowed
generation   2
step         20/25 (80.0 %), 320 samples, epoch 3.20
speed        160.0 samples/s, ETA 0:01
loss         0.5000 (training accuracy 25.0 %)

MEMBER   RANK   HOST   PID   STATE     STEP   PHASE             BEAT        LATE      RSS
w0          0   node   100   running     25   backward 0.2 s   0.5 s     +0.0 ms   310 MB
w1          1   a,"b   101   suspect     24   -                2.5 s   +250.0 ms        -
w2          -   x      102   joining      0   -                    -           -        -

last events
0:30 ago   started at step 0
0:29 ago   generation 1: 2 members from step 0: test
)");
  EXPECT_THAT(StatusText(snapshot, kNow, TextStyle::kPlain), Not(HasSubstr("\x1b")));
  EXPECT_THAT(StatusText(snapshot, kNow, TextStyle::kColor), HasSubstr("\x1b[31mw1 "));
}

TEST(StatusView, CsvQuotesWhatNeedsIt) {
  FakeRun run;
  run.Start().View(1, 0, {2, 2}).Steps(1, 20, {.generation = 1, .busy_seconds = {0.5, 0.75}});
  WriteStatus(run, StatusFile(kNow, "running"));
  const std::string rows =
      "w0,0,node,100,running,25,backward,0.25,0.5,0,310000000\n"
      "w1,1,\"a,\"\"b\",101,suspect,24,,0,2.5,0.25,\n"
      "w2,,x,102,joining,0,,0,,,\n";
  EXPECT_EQ(StatusCsv(Look(run), CsvHeader::kWithout), rows);
  EXPECT_THAT(StatusCsv(Look(run), CsvHeader::kWith), StartsWith("member,rank,host,pid,state,"));
}

TEST(StatusView, JsonHasNullForWhatIsNotKnown) {
  FakeRun run;
  run.Start();
  const auto json = nlohmann::json::parse(StatusJson(Look(run)));
  EXPECT_EQ(json["state"], "running");
  EXPECT_TRUE(json["generation"].is_null());
  EXPECT_TRUE(json["samples_per_second"].is_null());
}

TEST(RunStatus, ServersHaveALineEach) {
  FakeRun run;
  run.Start().Steps(1, 20).Write();
  std::filesystem::create_directories(run.Path() + "/servers");
  testing::WriteFile(
      run.Path() + "/servers/server-1.json",
      R"({"endpoint":"127.0.0.1:4711","pid":12,"rows":3,"table_bytes":2000000,)"
      R"("rss_bytes":31000000,"log_bytes":500000,"pushes":100,"duplicates":1,"version":50,)"
      R"("tables":[{"name":"words","rows":3,"waiting":7,"evicted":40}],)"
      R"("staleness":[90,8,0,2]})");
  RunSnapshot snapshot = Look(run);
  ASSERT_EQ(snapshot.servers.size(), 1U);
  snapshot.servers[0].written_unix = kNow - 1;
  EXPECT_THAT(
      StatusText(snapshot, kNow, TextStyle::kPlain),
      HasSubstr(
          "SERVER   ENDPOINT         PID   STATE   ROWS   MEMORY       RSS      LOG   PUSHES   "
          "TWICE   VERSION   STALENESS\n"
          "     1   127.0.0.1:4711    12   alive      3   2.0 MB   31.0 MB   0.5 MB      100   "
          "    1        50   0: 90 %, 1: 8 %, 4-7: 2 %\n"));
  EXPECT_THAT(StatusText(snapshot, kNow, TextStyle::kPlain),
              HasSubstr("\nTABLE   ROWS   ADMITTED   EVICTED   WAITING\n"
                        "words      3         43        40         7\n"));
  snapshot.servers[0].written_unix = kNow - 9;
  EXPECT_THAT(StatusText(snapshot, kNow, TextStyle::kColor), HasSubstr("\x1b[31m     1 "));
  EXPECT_THAT(StatusText(snapshot, kNow, TextStyle::kPlain), HasSubstr("  silent 9 s  "));
  snapshot.over = true;
  EXPECT_THAT(StatusText(snapshot, kNow, TextStyle::kPlain), HasSubstr("  ended  "));
  const auto json = nlohmann::json::parse(StatusJson(snapshot));
  EXPECT_EQ(json["servers"][0]["index"], 1);
  EXPECT_EQ(json["servers"][0]["rss_bytes"], 31'000'000);
  EXPECT_EQ(json["servers"][0]["staleness"][3], 2);
  EXPECT_EQ(json["servers"][0]["tables"][0]["evicted"], 40);
}

}  // namespace
}  // namespace paceline::job

#include "job/server_coverage.h"

#include <gmock/gmock.h>

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ten steps of two shards of four samples.
constexpr algo::BatchPlan kPlan{
    .seed = 1, .dataset_size = 40, .batch = 4, .shards = 2, .total_samples = 80};

struct Verdict {
  std::vector<std::string> kinds, texts, notes;
};

Verdict Check(const ExpectedPushes& expected, const LeaseHistory& leases,
              const std::vector<ServerRecord>& servers) {
  ViolationList violations;
  Verdict verdict;
  CheckServers(expected, leases, servers, &violations, &verdict.notes);
  for (const Violation& each : violations.kept()) {
    verdict.kinds.push_back(each.kind);
    verdict.texts.push_back(each.text);
  }
  return verdict;
}

ServerRecord RecordOf(std::uint64_t index, std::uint64_t pushes, std::uint64_t finished_below,
                      std::vector<ServerRecord::Lease> leases) {
  return {.index = index,
          .servers = 2,
          .endpoint = "",
          .pushes = pushes,
          .staleness = {},
          .finished_below = finished_below,
          .leases = std::move(leases),
          .last = true,
          .written_unix = {}};
}

// Leases of 32, 32 and 16 samples: with 8 samples in a push that is 4, 4 and 2 pushes.
LeaseHistory ThreeLeases(bool last_finished) {
  LeaseHistory history;
  history.leases[0] = {.range = {0, 32}, .done = 32, .holder = "", .finished = true};
  history.leases[1] = {.range = {32, 32}, .done = 32, .holder = "", .finished = true};
  history.leases[2] = {.range = {64, 16},
                       .done = last_finished ? 16U : 8U,
                       .holder = last_finished ? "" : "4",
                       .finished = last_finished,
                       .line = 9};
  return history;
}

const ExpectedPushes kFixed{.plan = kPlan, .push_steps = 4, .trainers = 2, .complete = true};
const ExpectedPushes kLeased{.plan = kPlan, .push_steps = 2, .leased = true, .complete = true};

TEST(ServerCoverage, EveryTrainerPushesEveryRoundToEveryServer) {
  const ServerRecord whole = RecordOf(0, 6, 0, {{0, 3, false}, {1, 3, false}});
  EXPECT_THAT(Check(kFixed, {}, {whole}).kinds, IsEmpty());
  const Verdict less =
      Check(kFixed, {}, {whole, RecordOf(1, 5, 0, {{0, 3, false}, {1, 2, false}})});
  EXPECT_THAT(less.texts, ElementsAre("server 1 has 2 of 3 pushes of trainer 1"));
  EXPECT_THAT(less.kinds, ElementsAre("server"));
  const Verdict more = Check(kFixed, {}, {RecordOf(0, 7, 0, {{0, 4, false}, {1, 3, false}})});
  EXPECT_THAT(more.texts, ElementsAre("server 0 has 4 of 3 pushes of trainer 0"));
}

TEST(ServerCoverage, ARunThatGoesOnMayHaveLess) {
  ExpectedPushes expected = kFixed;
  expected.complete = false;
  EXPECT_THAT(Check(expected, {}, {RecordOf(0, 3, 0, {{0, 2, false}, {1, 1, false}})}).kinds,
              IsEmpty());
}

TEST(ServerCoverage, PushesOfNobodyAreAViolation) {
  const Verdict verdict = Check(kFixed, {}, {RecordOf(0, 8, 0, {{0, 3, false}, {1, 3, false}})});
  EXPECT_THAT(verdict.texts,
              ElementsAre(HasSubstr("8 pushes; those that are accounted for are 6")));
}

TEST(ServerCoverage, LeasesAreFinishedOnEveryServer) {
  EXPECT_THAT(Check(kLeased, ThreeLeases(true), {RecordOf(0, 10, 3, {})}).kinds, IsEmpty());
  EXPECT_THAT(
      Check(kLeased, ThreeLeases(true), {RecordOf(0, 10, 1, {{1, 4, true}, {2, 2, true}})}).kinds,
      IsEmpty());
  const Verdict less = Check(kLeased, ThreeLeases(true), {RecordOf(0, 9, 2, {{2, 1, false}})});
  EXPECT_THAT(less.texts, ElementsAre("server 0 has 1 of 2 pushes of lease 2, which is finished"));
  const Verdict early = Check(kLeased, ThreeLeases(true), {RecordOf(0, 9, 2, {{2, 1, true}})});
  EXPECT_THAT(early.kinds, ElementsAre("server"));
  const Verdict twice = Check(kLeased, ThreeLeases(true), {RecordOf(0, 11, 3, {})});
  EXPECT_THAT(twice.kinds, ElementsAre("server"));
}

TEST(ServerCoverage, AnOldRecordOfALivingServerIsNoViolation) {
  ExpectedPushes expected = kLeased;
  expected.complete = false;
  ServerRecord old = RecordOf(0, 6, 1, {{1, 2, false}});
  old.last = false;
  EXPECT_THAT(Check(expected, ThreeLeases(false), {old}).kinds, IsEmpty());
  EXPECT_THAT(Check(kLeased, ThreeLeases(true), {old}).texts.front(), HasSubstr("--resume"));
}

TEST(ServerCoverage, ServersWitnessALeaseWhoseEndTheCoordinatorDidNotWrite) {
  const Verdict all =
      Check(kLeased, ThreeLeases(false), {RecordOf(0, 10, 3, {}), RecordOf(1, 10, 3, {})});
  EXPECT_THAT(all.kinds, IsEmpty());
  EXPECT_THAT(all.notes, SizeIs(1));
  const Verdict one = Check(kLeased, ThreeLeases(false),
                            {RecordOf(0, 10, 3, {}), RecordOf(1, 9, 2, {{2, 1, false}})});
  EXPECT_THAT(one.kinds, ElementsAre("lease"));
  EXPECT_THAT(Check(kLeased, ThreeLeases(false), {}).kinds, ElementsAre("lease"));
}

}  // namespace
}  // namespace paceline::job

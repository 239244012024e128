#include "job/placement.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

AvailableCpus Cpus(int count) {
  AvailableCpus available{.cpus = {}, .cores = count};
  for (int cpu = 0; cpu < count; ++cpu) available.cpus.push_back(cpu);
  return available;
}

TEST(PlanPlacement, DividesTheCoresEvenly) {
  const Placement two = PlanPlacement({.available = Cpus(2), .workers = 2});
  EXPECT_THAT(two.Describe(),
              ElementsAre("worker 0: CPU 0, 1 thread", "worker 1: CPU 1, 1 thread"));
  EXPECT_THAT(two.warning, IsEmpty());
  const Placement eight = PlanPlacement({.available = Cpus(8), .workers = 2});
  EXPECT_THAT(eight.Describe(),
              ElementsAre("worker 0: CPUs 0-3, 4 threads", "worker 1: CPUs 4-7, 4 threads"));
}

TEST(PlanPlacement, OneWorkerGetsEverything) {
  const Placement placement = PlanPlacement({.available = Cpus(3)});
  EXPECT_THAT(placement.Describe(), ElementsAre("worker 0: CPUs 0-2, 3 threads"));
}

TEST(PlanPlacement, EveryWorkerHasTheSameThreadsAndEveryCpuAnOwner) {
  const Placement placement = PlanPlacement({.available = Cpus(5), .workers = 3});
  EXPECT_THAT(placement.Describe(),
              ElementsAre("worker 0: CPUs 0-1, 1 thread", "worker 1: CPUs 2-3, 1 thread",
                          "worker 2: CPU 4, 1 thread"));
}

TEST(PlanPlacement, KeepsToTheAffinityMask) {
  const Placement placement =
      PlanPlacement({.available = {.cpus = {1, 3, 8, 9}, .cores = 4}, .workers = 2});
  EXPECT_THAT(placement.workers,
              ElementsAre(WorkerPlacement{{1, 3}, 2}, WorkerPlacement{{8, 9}, 2}));
  EXPECT_THAT(placement.Describe(),
              ElementsAre("worker 0: CPUs 1,3, 2 threads", "worker 1: CPUs 8-9, 2 threads"));
}

TEST(PlanPlacement, MoreWorkersThanCoresAreNotPinned) {
  const Placement placement = PlanPlacement({.available = Cpus(2), .workers = 4});
  EXPECT_THAT(placement.workers, ElementsAre(WorkerPlacement{{}, 1}, WorkerPlacement{{}, 1},
                                             WorkerPlacement{{}, 1}, WorkerPlacement{{}, 1}));
  EXPECT_EQ(placement.warning, "4 workers share 2 cores");
  EXPECT_EQ(placement.Describe().front(), "worker 0: not pinned, 1 thread");
  EXPECT_EQ(PlanPlacement({.available = Cpus(1), .workers = 2}).warning, "2 workers share 1 core");
}

TEST(PlanPlacement, AWishForThreadsIsKept) {
  const Placement fits =
      PlanPlacement({.available = Cpus(8), .workers = 2, .threads_per_worker = 3});
  EXPECT_THAT(fits.workers,
              ElementsAre(WorkerPlacement{{0, 1, 2, 3}, 3}, WorkerPlacement{{4, 5, 6, 7}, 3}));
  const Placement crowded =
      PlanPlacement({.available = Cpus(4), .workers = 2, .threads_per_worker = 3});
  EXPECT_THAT(crowded.workers, Each(WorkerPlacement{{}, 3}));
  EXPECT_EQ(crowded.warning, "2 workers with 3 threads each share 4 cores");
}

TEST(PlanPlacement, UnderAQuotaNobodyKnowsWhichCpusAreFree) {
  AvailableCpus available = Cpus(8);
  available.cores = 4;
  const Placement placement = PlanPlacement({.available = available, .workers = 2});
  EXPECT_THAT(placement.workers, Each(WorkerPlacement{{}, 2}));
  EXPECT_THAT(placement.warning, IsEmpty());
}

TEST(PlanPlacement, NoneMeansThreadsOnly) {
  const Placement placement =
      PlanPlacement({.available = Cpus(4), .workers = 2, .policy = PlacementPolicy::kNone});
  EXPECT_THAT(placement.workers, Each(WorkerPlacement{{}, 2}));
}

TEST(PlanPlacement, NoWorkersAndNoCpusAreHarmless) {
  EXPECT_THAT(PlanPlacement({.available = Cpus(4), .workers = 0}).workers, IsEmpty());
  EXPECT_THAT(PlanPlacement({.available = {.cpus = {}, .cores = 0}}).workers,
              ElementsAre(WorkerPlacement{{}, 1}));
}

TEST(PlacementPolicy, KnowsItsNames) {
  EXPECT_EQ(*ParsePlacementPolicy("auto"), PlacementPolicy::kAuto);
  EXPECT_EQ(*ParsePlacementPolicy("none"), PlacementPolicy::kNone);
  EXPECT_THAT(ParsePlacementPolicy("numa"),
              StatusIs(Code::kInvalidArgument, HasSubstr("--placement numa")));
}

TEST(ReadAvailableCpus, FindsAtLeastOne) {
  const AvailableCpus available = ReadAvailableCpus();
  EXPECT_THAT(available.cpus, Not(IsEmpty()));
  EXPECT_THAT(available.cores, Ge(1));
}

}  // namespace
}  // namespace paceline::job

#include "collective/local_group.h"

#include <sched.h>
#include <unistd.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/shared_memory.h"
#include "testing/status_matchers.h"

namespace paceline::collective {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

constexpr std::chrono::seconds kLong(60);

std::chrono::steady_clock::time_point Later() { return std::chrono::steady_clock::now() + kLong; }

// The ranks of one host, each with its own view of the memory.
std::vector<std::unique_ptr<LocalGroup>> MakeRanks(std::size_t count, int spins) {
  LocalGroup::Options options{.region_bytes = 4096, .spins = spins};
  for (std::size_t rank = 0; rank < count; ++rank) options.ranks.push_back(rank);
  const std::size_t bytes = LocalGroup::MemoryBytes(options);
  auto memory = net::SharedMemory::Create(bytes);
  std::vector<std::unique_ptr<LocalGroup>> ranks;
  for (std::size_t rank = 0; rank < count; ++rank) {
    options.index = rank;
    auto view = net::SharedMemory::Map(UniqueFd(::dup(memory->fd())), bytes);
    EXPECT_THAT(view.status(), IsOk());
    ranks.push_back(std::make_unique<LocalGroup>(std::move(*view), options));
  }
  return ranks;
}

TEST(LocalGroup, ARankThatSleepsOffersItsCoreUntilTheOtherArrives) {
  auto ranks = MakeRanks(2, /*spins=*/1);
  for (int turn = 0; turn < 50; ++turn) {
    EXPECT_FALSE(ranks[0]->Idle());
    std::jthread helper([&] {
      EXPECT_TRUE(ranks[0]->Await());
      EXPECT_TRUE(ranks[0]->Idle());
      EXPECT_FALSE(ranks[1]->Idle());  // nobody waits for the one that sleeps
      EXPECT_THAT(ranks[0]->Barrier(Later()), IsOk());
      EXPECT_FALSE(ranks[0]->Idle());
    });
    EXPECT_THAT(ranks[1]->Barrier(Later()), IsOk());
  }
}

TEST(LocalGroup, TheLastRankIsOfferedTheCoresOfTheOthers) {
  auto ranks = MakeRanks(3, /*spins=*/1);
  for (int turn = 0; turn < 50; ++turn) {
    std::jthread first([&] { EXPECT_THAT(ranks[0]->Barrier(Later()), IsOk()); });
    std::jthread second([&] { EXPECT_THAT(ranks[2]->Barrier(Later()), IsOk()); });
    EXPECT_TRUE(ranks[1]->Await());
    EXPECT_THAT(ranks[1]->Barrier(Later()), IsOk());
  }
}

TEST(LocalGroup, WhoWaitsForACoreIsToldTheEnd) {
  auto ranks = MakeRanks(2, /*spins=*/1);
  std::jthread helper([&] { EXPECT_FALSE(ranks[0]->Await()); });
  ranks[0]->End();
}

TEST(LocalGroup, NoCoreIsIdleAfterTheGroupFailed) {
  auto ranks = MakeRanks(2, /*spins=*/1);
  std::jthread sleeper([&] {
    EXPECT_THAT(ranks[1]->Barrier(Later()), StatusIs(Code::kAborted, HasSubstr("enough")));
  });
  EXPECT_TRUE(ranks[0]->Await());
  ranks[0]->Abort(Status::Error(Code::kAborted, "enough"));
  EXPECT_FALSE(ranks[0]->Idle());
  ranks[1]->Abort(Status::Error(Code::kAborted, "enough"));
}

TEST(LocalGroup, KnowsWhereTheOthersRun) {
  auto ranks = MakeRanks(2, /*spins=*/1);
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(own), &own), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &own) != 0) cpus.push_back(cpu);
  }
  EXPECT_EQ(ranks[0]->CpusOfOthers(), cpus);
  EXPECT_THAT(MakeRanks(1, 1)[0]->CpusOfOthers(), IsEmpty());
}

TEST(LocalGroup, OffersNothingWhereRanksShareCores) {
  EXPECT_FALSE(MakeRanks(2, /*spins=*/0)[0]->OffersCores());
}

}  // namespace
}  // namespace paceline::collective

#include "member/simulation_test_util.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "testing/seed.h"

namespace paceline::member {
namespace {

// PACELINE_SIM_SEED=N replays one schedule; PACELINE_SIM_RUNS=N tries more of them.
std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

SimulationOptions Schedule(std::uint64_t seed) {
  CounterRng random(seed, Purpose::kTest, 5, 0);
  SimulationOptions options{.seed = seed};
  options.steps = 20 + random.Below(600);
  options.max_workers = 1 + random.Below(5);
  options.min_workers = 1 + random.Below(static_cast<std::uint32_t>(options.max_workers));
  options.faults = static_cast<int>(random.Below(25));
  options.coordinator_faults = random.Below(2) == 1;
  return options;
}

TEST(SimulationTest, UndisturbedRunHasOneGeneration) {
  Simulation simulation({.seed = testing::TestSeed(), .faults = 0});
  EXPECT_EQ(simulation.Run(), "");
  EXPECT_EQ(simulation.generations(), 1U);
  EXPECT_EQ(simulation.repeated_steps(), 0U);
}

TEST(SimulationTest, TheSameSeedGivesTheSameRun) {
  const SimulationOptions options = Schedule(testing::TestSeed());
  Simulation one(options), two(options);
  EXPECT_EQ(one.Run(), two.Run());
  EXPECT_EQ(one.generations(), two.generations());
  EXPECT_EQ(one.crashes(), two.crashes());
}

TEST(SimulationTest, EveryScheduleKeepsEverySampleOnce) {
  const std::uint64_t one = FromEnvironment("PACELINE_SIM_SEED", 0);
  const std::uint64_t runs = one != 0 ? 1 : FromEnvironment("PACELINE_SIM_RUNS", 2'000);
  std::uint64_t generations = 0, crashes = 0, repeated = 0;
  for (std::uint64_t i = 0; i < runs; ++i) {
    Simulation simulation(Schedule(one != 0 ? one : testing::TestSeed() + i));
    const std::string failure = simulation.Run();
    ASSERT_EQ(failure, "") << "replay with PACELINE_SIM_SEED";
    generations += simulation.generations();
    crashes += simulation.crashes();
    repeated += simulation.repeated_steps();
  }
  std::printf("%llu schedules: %llu views, %llu crashes, %llu repeated steps\n",
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(generations),
              static_cast<unsigned long long>(crashes), static_cast<unsigned long long>(repeated));
  if (one == 0) {
    EXPECT_GT(crashes, runs);  // the schedules do disturb
  }
}

}  // namespace
}  // namespace paceline::member

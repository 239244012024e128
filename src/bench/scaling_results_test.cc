#include "bench/scaling_results.h"

#include <utility>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "bench/scaling_report.h"

namespace paceline::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two systems and three rounds; the second round hit a disturbance that slowed everything down.
ScalingResults SampleScaling() {
  ScalingResults results;
  results.provenance = {.command_line = "paceline bench scaling --workers 2",
                        .started_unix = 1'700'000'000,
                        .commit = "0123abcd"};
  results.machine.cpu_model = "Example CPU";
  results.machine.cores = 2;
  results.machine.cores_online = 2;
  results.machine.governor = "performance";
  results.machine.load_average = 0.25;
  results.config = {.cpus = {{0}, {1}}, .rounds = 3};
  const auto runs = [](double seconds) {
    return TeamRuns{.rank_seconds = {{seconds - 1, seconds}, {2 * seconds, 1}, {seconds, seconds}},
                    .samples = 240,
                    .max_rss_bytes = 1'000'000'000,
                    .last_loss = 2.25};
  };
  const auto even = [&](double seconds) {
    TeamRuns team = runs(seconds);
    team.rank_seconds = {{seconds, seconds}, {2 * seconds, 2 * seconds}, {seconds, seconds}};
    const std::vector<double> first{seconds * 3 / 4, seconds / 4};
    const std::vector<double> second{seconds / 2, seconds / 2};
    team.step_seconds = {{first, second}, {first, second}, {first, second}};
    return team;
  };
  results.systems = {{.info = {.name = "Paceline", .version = "0.1.0", .params = 15'254'602},
                      .together_name = "allreduce",
                      .alone = even(4),
                      .together = runs(5)},
                     {.info = {.name = "PyTorch", .version = "1.13.1", .params = 15'254'602},
                      .together_name = "DDP",
                      .alone = even(5),
                      .together = runs(10)}};
  return results;
}

TEST(ScalingSummary, LoneWorkersAreSummedTogetherTheSlowestDecides) {
  const TeamRuns team{.rank_seconds = {{3, 4}, {8, 1}}, .samples = 240};
  EXPECT_THAT(team.Rates(), ElementsAre(60, 30));
  EXPECT_THAT(team.SummedRates(), ElementsAre(70, 135));
}

TEST(ScalingSummary, InStepTheSlowestOfEachStepDecides) {
  TeamRuns team{.rank_seconds = {{3, 3}}, .samples = 240};
  EXPECT_THAT(team.RatesInStep(), IsEmpty());
  team.step_seconds = {{{1, 2}, {2, 1}}};
  EXPECT_THAT(team.RatesInStep(), ElementsAre(60));
  team.step_seconds = {{{1, 2}, {}}};
  EXPECT_THAT(team.RatesInStep(), IsEmpty());
}

TEST(ScalingSummary, PairsTheRounds) {
  const auto cells = Summarize(SampleScaling());
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_DOUBLE_EQ(cells[0].alone->median, 60);
  EXPECT_DOUBLE_EQ(cells[0].alone->min, 30);
  EXPECT_DOUBLE_EQ(cells[0].together->median, 48);
  EXPECT_DOUBLE_EQ(cells[0].efficiency->median, 0.8);
  EXPECT_DOUBLE_EQ(cells[0].in_step->median, 0.8);
  EXPECT_FALSE(cells[0].together_speedup);
  EXPECT_DOUBLE_EQ(cells[1].efficiency->median, 0.5);
  EXPECT_GT(cells[1].alone_speedup->median, 1);
  EXPECT_DOUBLE_EQ(cells[1].together_speedup->median, 2);
}

TEST(ScalingSummary, WhatDidNotRunHasNoFigures) {
  ScalingResults results = SampleScaling();
  results.systems[1] = {.info = {.name = "pytorch", .unavailable = "pytorch: not installed"}};
  const auto cells = Summarize(results);
  EXPECT_FALSE(cells[1].alone);
  EXPECT_FALSE(cells[1].efficiency);
  EXPECT_FALSE(cells[1].together_speedup);
  EXPECT_THAT(ScalingTable(results), HasSubstr("not available: pytorch: not installed"));
  EXPECT_THAT(ScalingReport(results), HasSubstr("Not available: pytorch: not installed"));
}

TEST(ScalingJson, HoldsRawTimesAndTheSummary) {
  const auto json = nlohmann::json::parse(ToJson(SampleScaling()), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["name"], "scaling");
  EXPECT_EQ(json["config"]["workers"], 2);
  EXPECT_EQ(json["config"]["cpus"], nlohmann::json({{0}, {1}}));
  EXPECT_EQ(json["machine"]["cores"], 2);
  EXPECT_EQ(json["machine"]["load_average"], 0.25);
  EXPECT_EQ(json["systems"][0]["alone"]["rank_seconds"][1], nlohmann::json({8, 8}));
  EXPECT_EQ(json["systems"][1]["together_name"], "DDP");
  EXPECT_EQ(json["summary"][0]["efficiency"]["median"], 0.8);
  EXPECT_EQ(json["summary"][0]["in_step"]["median"], 0.8);
  EXPECT_EQ(json["systems"][0]["alone"]["step_seconds"][0][0], nlohmann::json({3, 1}));
  EXPECT_EQ(json["summary"][1]["together"]["speedup"]["median"], 2);
  EXPECT_TRUE(json["summary"][0]["together"]["speedup"].is_null());
}

TEST(ScalingWarnings, NameLoadSharedCoresPinningAndSpread) {
  ScalingResults results = SampleScaling();
  EXPECT_THAT(ScalingWarnings(results), IsEmpty());
  results.machine.load_average = 1.5;
  results.config.cpus.clear();
  results.systems[1].together.rank_seconds = {{10}, {12}, {14}};
  EXPECT_THAT(ScalingWarnings(results),
              ElementsAre(HasSubstr("load average 1.50 on 2 cores"), HasSubstr("not pinned"),
                          HasSubstr("PyTorch DDP: the spread is")));
  results.config.workers = 4;
  EXPECT_THAT(ScalingWarnings(results)[1], HasSubstr("4 threads share 2 cores"));
}

TEST(ScalingWarnings, ToDoubtAnEfficiencyAboveOne) {
  ScalingResults results = SampleScaling();
  std::swap(results.systems[0].alone.rank_seconds, results.systems[0].together.rank_seconds);
  EXPECT_THAT(ScalingWarnings(results),
              Contains(HasSubstr("Paceline: together is faster than alone")));
}

TEST(ScalingTable, LooksLikeThis) {
  EXPECT_EQ(
      ScalingTable(SampleScaling()),
      R"(vgg16 training; 2 workers of 1 thread on CPUs 0, 1, batch 64 each; median ± MAD of 3 rounds of 2 steps
2 cores, load average 0.25 at the start

samples/s                    alone        together   together / alone   in step / alone
Paceline 0.1.0        60.00 ± 0.00    48.00 ± 0.00       80.0 ± 0.0 %      80.0 ± 0.0 %
PyTorch 1.13.1        48.00 ± 0.00    24.00 ± 0.00       50.0 ± 0.0 %      80.0 ± 0.0 %
Paceline / PyTorch   1.25 ± 0.00 ×   2.00 ± 0.00 ×
)");
}

TEST(ScalingReport, CarriesFiguresCommandAndMachine) {
  const std::string html = ScalingReport(SampleScaling());
  for (const char* word :
       {"paceline bench scaling --workers 2", "0123abcd", "Example CPU", "80.0 ± 0.0 %",
        "speed of PyTorch DDP", "2.00 ×", "PyTorch DDP, worker 1", "2023-11-14 22:13 UTC"}) {
    EXPECT_THAT(html, HasSubstr(word));
  }
}

TEST(ScalingReport, EscapesWhatSystemsAndUsersSay) {
  const std::string evil = "<script>alert('x')</script>";
  ScalingResults results = SampleScaling();
  results.provenance.command_line = evil;
  results.config.model = evil;
  for (ScalingSystem& system : results.systems) system.info.name = system.info.version = evil;
  results.systems[1].info.unavailable = evil;
  results.partial = true;
  results.failure = evil;
  const std::string html = ScalingReport(results);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("This result is partial"));
}

TEST(ScalingReport, WorksWithoutAnyMeasurement) {
  ScalingResults results;
  results.partial = true;
  results.failure = "stopped";
  EXPECT_THAT(ScalingReport(results), HasSubstr("stopped"));
  EXPECT_THAT(ScalingTable(results), HasSubstr("partial result: stopped"));
}

}  // namespace
}  // namespace paceline::bench

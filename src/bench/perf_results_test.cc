#include "bench/perf_results.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "bench/perf_chart.h"
#include "bench/perf_report.h"
#include "bench/perf_table.h"
#include "testing/status_matchers.h"

namespace paceline::bench {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

PerfPoint Point(std::size_t bytes, std::vector<double> times_us, std::int64_t wrong = 0) {
  return {.requested_bytes = bytes,
          .time_us = times_us,
          .min_us = times_us,
          .p50_us = times_us,
          .p95_us = times_us,
          .p99_us = times_us,
          .max_us = times_us,
          .iterations = 20,
          .wrong = wrong};
}

// One engine that is not there, and two that ran at two sizes on four ranks.
PerfResults Sample() {
  PerfResults results;
  results.provenance = {.command_line = "paceline perf allreduce", .started_unix = 1'700'000'000};
  results.machine.cores = 2;
  results.config = {.workers = 4, .rounds = 3};
  results.engines = {{.name = "native", .unavailable = "native: not in this build"},
                     {.name = "gloo",
                      .version = "0.5.0",
                      .points = {Point(4096, {100, 110, 90}), Point(1 << 20, {1000, 1000, 1000})}},
                     {.name = "mpi",
                      .version = "<4.1>",
                      .points = {Point(4096, {50, 55, 45}), Point(1 << 20, {2000, 2000, 2500})}}};
  return results;
}

TEST(PerfPoint, ARoundIsTheSlowestRankAndAllWrongElements) {
  PerfPoint point;
  const PerfSample samples[] = {
      {.rank = 0, .seconds = 2, .iterations = 10, .wrong = 1, .sent_bytes = 5},
      {.rank = 1, .seconds = 3, .iterations = 10, .p99_us = 7, .wrong = 2, .sent_bytes = 6}};
  ASSERT_THAT(point.AddRound(samples), IsOk());
  ASSERT_THAT(point.AddRound(samples), IsOk());
  EXPECT_EQ(point.time_us, (std::vector<double>{3e5, 3e5}));
  EXPECT_EQ(point.p99_us.back(), 7);
  EXPECT_EQ(point.wrong, 6);
  EXPECT_EQ(point.sent_bytes, 11U);
}

TEST(PerfPoint, UncheckedIsNotZeroWrong) {
  PerfPoint point;
  const PerfSample samples[] = {{.seconds = 1, .iterations = 1, .wrong = -1}};
  ASSERT_THAT(point.AddRound(samples), IsOk());
  EXPECT_EQ(point.wrong, -1);
}

TEST(PerfPoint, SamplesThatDoNotBelongTogetherAreRefused) {
  PerfPoint point;
  const PerfSample samples[] = {{.seconds = 1, .iterations = 10}, {.seconds = 1, .iterations = 9}};
  EXPECT_THAT(point.AddRound(samples), StatusIs(Code::kProtocol, _));
  const PerfSample timeless[] = {{.seconds = 0, .iterations = 10}};
  EXPECT_THAT(point.AddRound(timeless), StatusIs(Code::kProtocol, _));
  EXPECT_THAT(point.AddRound({}), StatusIs(Code::kProtocol, _));
}

TEST(PerfResults, BandwidthsAreThoseOfNcclTests) {
  const PerfResults results = Sample();
  const PerfPoint& point = results.engines[1].points[1];
  EXPECT_THAT(AlgBandwidth(results.config, point), DoubleNear(1.048576, 1e-9));
  EXPECT_THAT(BusBandwidth(results.config, point), DoubleNear(1.572864, 1e-9));
}

TEST(PerfResults, RatiosComeFromPairedRounds) {
  const PerfResults results = Sample();
  EXPECT_EQ(ReferenceEngine(results), 1U);
  EXPECT_FALSE(Speedup(results, 0, 0));
  EXPECT_FALSE(Speedup(results, 1, 0));
  EXPECT_THAT(Speedup(results, 2, 0)->median, DoubleNear(0.5, 1e-9));
  EXPECT_THAT(Speedup(results, 2, 1)->median, DoubleNear(2, 1e-9));
  EXPECT_FALSE(Speedup(results, 2, 2));
}

TEST(PerfResults, SaysThatWorkersShareCores) {
  PerfResults results = Sample();
  EXPECT_THAT(PerfWarnings(results), Contains(HasSubstr("4 workers share 2 cores")));
  results.config.workers = 2;
  EXPECT_THAT(PerfWarnings(results), Not(Contains(HasSubstr("share"))));
}

TEST(PerfResults, JsonHasTheKeysOfNcclTests) {
  const auto json = nlohmann::json::parse(ToJson(Sample()));
  EXPECT_EQ(json["config"]["workers"], 4);
  EXPECT_EQ(json["start_time"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(json["engines"][0]["unavailable"], "native: not in this build");
  const auto& mpi = json["engines"][2];
  const auto& row = mpi["results"][0];
  EXPECT_EQ(row["size"], 4096);
  EXPECT_EQ(row["count"], 1024);
  EXPECT_EQ(row["type"], "float");
  EXPECT_EQ(row["redop"], "sum");
  EXPECT_EQ(row["root"], "-1");
  EXPECT_TRUE(row["out_of_place"].is_null());
  EXPECT_EQ(row["in_place"]["time"], 50);
  EXPECT_EQ(row["in_place"]["nwrong"], 0);
  EXPECT_EQ(row["actual_iterations"], 20);
  EXPECT_EQ(row["speedup"]["median"], 0.5);
  EXPECT_TRUE(mpi["out_of_bounds"]["okay"]);
  EXPECT_GT(mpi["average_bus_bandwidth"]["bandwidth"], 0);
}

TEST(PerfTable, RowsHaveTheColumnsOfNcclTests) {
  const PerfResults results = Sample();
  EXPECT_EQ(
      NcclRow(results.config, results.engines[1].points[1]),
      "     1048576        262144     float     sum      -1   1000.0    1.05    1.57       0\n");
  const PerfPoint unchecked = Point(1 << 20, {123456.7}, -1);
  EXPECT_EQ(
      NcclRow(results.config, unchecked),
      "     1048576        262144     float     sum      -1   123457    0.01    0.01     N/A\n");
  EXPECT_THAT(NcclHeader(results.config),
              HasSubstr("#       size         count      type   redop    root     time   algbw   "
                        "busbw  #wrong\n"));
  EXPECT_THAT(NcclFooter(results.config, results.engines[1]),
              AllOf(HasSubstr("# Out of bounds values : 0 OK"), HasSubstr("# Avg bus bandwidth")));
}

TEST(PerfTable, WrongElementsAreSaid) {
  PerfResults results = Sample();
  results.engines[1].points[0].wrong = 3;
  EXPECT_THAT(PerfTable(results), AllOf(HasSubstr("# Out of bounds values : 3 FAILED"),
                                        HasSubstr("gloo: 3 elements of allreduce are wrong")));
}

TEST(PerfTable, EnginesStandSideBySide) {
  const std::string text = PerfTable(Sample());
  EXPECT_THAT(text, HasSubstr("gloo / mpi"));
  EXPECT_THAT(text, HasSubstr("0.50 ± 0.00 ×"));
  EXPECT_THAT(text, HasSubstr("100.0 ± 10.0"));
  EXPECT_THAT(text, HasSubstr("not available: native: not in this build"));
}

TEST(PerfTable, LatencyShowsPercentiles) {
  PerfResults results = Sample();
  results.config.op = PerfOp::kLatency;
  EXPECT_THAT(SideBySide(results), AllOf(HasSubstr("p50"), HasSubstr("p99")));
}

TEST(PerfReport, IsOnePageWithAChartAndEscapedTexts) {
  const std::string html = PerfReport(Sample());
  EXPECT_THAT(html, HasSubstr("<svg class=\"chart\""));
  EXPECT_THAT(html, HasSubstr("&lt;4.1&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("4 workers share 2 cores"));
}

TEST(PerfReport, NothingMeasuredIsAPageToo) {
  PerfResults results = Sample();
  results.engines.resize(1);
  results.partial = true;
  results.failure = "none of the engines is available";
  EXPECT_THAT(PerfReport(results), HasSubstr("none of the engines is available"));
}

TEST(PerfChart, ValuesThatHaveNoLogarithmAreLeftOut) {
  const LogChart chart{.id = "c", .series = {{.name = "a", .points = {{0, {1, 1, 1}}, {4, {}}}}}};
  const std::string svg = LogLogChartSvg(chart, ChartSize::kNarrow);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, Not(HasSubstr("circle")));
}

}  // namespace
}  // namespace paceline::bench

#include "bench/results.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "bench/summary.h"
#include "bench/test_results.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

TEST(ResultsJson, ReadingBackGivesTheSameDocument) {
  SingleNodeResults results = SampleResults();
  results.partial = true;
  results.failure = "stopped";
  const std::string text = ToJson(results);
  const auto read = SingleNodeFromJson(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(ToJson(*read), text);
  EXPECT_EQ(read->config.cpu, 1);
  EXPECT_EQ(read->machine.cpu_flags, results.machine.cpu_flags);
  EXPECT_EQ(read->batches[1].systems[1].seconds, results.batches[1].systems[1].seconds);
  EXPECT_EQ(read->batches[0].systems[1].last_loss, std::nullopt);
}

TEST(ResultsJson, AMissingFigureIsNullNotNan) {
  SingleNodeResults results = SampleResults();
  results.machine.load_average = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse(ToJson(results), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_TRUE(json["machine"]["load_average"].is_null());
  EXPECT_TRUE(json["summary"][0]["systems"][2]["samples_per_second"].is_null());
  EXPECT_TRUE(json["summary"][0]["systems"][0]["speedup"].is_null());
  EXPECT_EQ(json["summary"][1]["systems"][1]["speedup"]["median"], 2);
}

TEST(ResultsJson, BytesThatAreNotUtf8DoNotBreakTheFile) {
  SingleNodeResults results = SampleResults();
  results.systems[1].version = "1.\xff";
  EXPECT_THAT(SingleNodeFromJson(ToJson(results)), IsOk());
}

TEST(ResultsJson, AWrongFieldIsNamed) {
  auto json = nlohmann::json::parse(ToJson(SampleResults()), nullptr, false);
  json["batches"][1]["systems"][0]["seconds"][2] = "fast";
  EXPECT_THAT(SingleNodeFromJson(json.dump()),
              StatusIs(Code::kBadData, HasSubstr("batches[1].systems[0].seconds")));
  EXPECT_THAT(SingleNodeFromJson("{}"), StatusIs(Code::kBadData, HasSubstr("schema 1")));
  EXPECT_THAT(SingleNodeFromJson("[1,"), StatusIs(Code::kBadData, HasSubstr("not a JSON object")));
}

TEST(ResultsJson, ABatchWithoutAllSystemsIsRefused) {
  SingleNodeResults results = SampleResults();
  results.batches[0].systems.pop_back();
  EXPECT_THAT(SingleNodeFromJson(ToJson(results)),
              StatusIs(Code::kBadData, HasSubstr("2 systems instead of 3")));
}

TEST(Summarize, PairsTheRoundsAndLeavesAbsentSystemsOut) {
  const auto batches = Summarize(SampleResults());
  ASSERT_EQ(batches.size(), 2U);
  const Cell& ours = batches[0].cells[0];
  EXPECT_DOUBLE_EQ(ours.samples_per_second->median, 64);
  EXPECT_DOUBLE_EQ(ours.samples_per_second->min, 50);
  EXPECT_DOUBLE_EQ(ours.samples_per_second->max, 80);
  EXPECT_FALSE(ours.speedup);
  const Cell& peer = batches[0].cells[1];
  EXPECT_DOUBLE_EQ(peer.samples_per_second->median, 32);
  EXPECT_DOUBLE_EQ(peer.speedup->median, 2);
  EXPECT_DOUBLE_EQ(peer.speedup->max, 2.5);
  EXPECT_DOUBLE_EQ(*batches[1].cells[1].memory_ratio, 0.5);
  EXPECT_FALSE(batches[0].cells[2].samples_per_second);
}

TEST(Summarize, ARoundThatOnlyOneSystemFinishedHasNoRatio) {
  SingleNodeResults results = SampleResults();
  results.batches[1].systems[1].seconds = {4};
  results.batches[1].systems[1].max_rss_bytes = 0;  // it was stopped before it could say
  const Cell cell = Summarize(results)[1].cells[1];
  EXPECT_EQ(cell.speedup->count, 1U);
  EXPECT_FALSE(cell.memory_ratio);
  EXPECT_FALSE(cell.max_rss_bytes);
}

TEST(Warnings, AQuietMachineWithSteadyRoundsHasNone) {
  SingleNodeResults results = SampleResults();
  results.batches.erase(results.batches.begin());
  results.machine.governor = "performance";
  results.machine.load_average = 1;
  EXPECT_THAT(Warnings(results), IsEmpty());
}

TEST(Warnings, NameLoadGovernorSwapOutliersAndSpread) {
  SingleNodeResults results = SampleResults();
  results.machine.load_average = 1.01;
  results.machine.governor = "powersave";
  results.machine.swap_on = true;
  results.batches[1].systems[0].seconds = {2, 2.01, 1.99, 2.02, 60};
  EXPECT_THAT(Warnings(results),
              ElementsAre(HasSubstr("load average 1.01 on 2 cores"), HasSubstr("powersave"),
                          HasSubstr("Swap"), HasSubstr("Paceline, batch 32: the spread is 22 %"),
                          HasSubstr("Paceline, batch 128: 1 of 5 rounds are outliers")));
}

}  // namespace
}  // namespace paceline::bench

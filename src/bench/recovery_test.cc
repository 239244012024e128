#include "bench/recovery.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "testing/status_matchers.h"

namespace paceline::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

RecoveryResults SampleRecovery() {
  RecoveryResults results;
  results.machine.cores = 2;
  results.recoveries = {{0.5, 0.25, 0.1}, {0.7, 0.3, std::nullopt}};
  results.cost = {{100, 99}, {200, 200}, {50, 49}};
  results.audit = "OK";
  return results;
}

TEST(Recovery, JsonHasEveryFaultAndTheSummary) {
  const auto json = nlohmann::json::parse(ToJson(SampleRecovery()));
  EXPECT_EQ(json["name"], "recovery");
  ASSERT_EQ(json["recoveries"].size(), 2U);
  EXPECT_EQ(json["recoveries"][0]["stall_of_joining"], 0.1);
  EXPECT_TRUE(json["recoveries"][1]["stall_of_joining"].is_null());
  EXPECT_EQ(json["summary"]["to_next_step"]["max"], 0.7);
  EXPECT_EQ(json["summary"]["stall_of_joining"]["count"], 1);
  EXPECT_DOUBLE_EQ(json["summary"]["elastic_over_fixed"]["median"].get<double>(), 0.99);
}

TEST(Recovery, NothingMeasuredIsNull) {
  const auto json = nlohmann::json::parse(ToJson(RecoveryResults{}));
  EXPECT_TRUE(json["summary"]["to_next_step"].is_null());
  EXPECT_TRUE(json["summary"]["elastic_over_fixed"].is_null());
}

TEST(Recovery, TableShowsMillisecondsAndFailures) {
  RecoveryResults results = SampleRecovery();
  results.failure = "the training ended";
  EXPECT_THAT(
      RecoveryTable(results),
      AllOf(HasSubstr("from the fault to the next committed step"), HasSubstr(" 700 "),
            HasSubstr("99.0 %"), HasSubstr("audit: OK"), HasSubstr("failed: the training ended")));
}

TEST(Recovery, ConfigurationsThatCannotWorkAreRefused) {
  EXPECT_THAT(Validate({}), IsOk());
  EXPECT_THAT(Validate({.workers = 1}), StatusIs(Code::kInvalidArgument, HasSubstr("--workers")));
  EXPECT_THAT(Validate({.fault = "burn"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("kill, stop or cut")));
  EXPECT_THAT(Validate({.faults = -1}), StatusIs(Code::kInvalidArgument, HasSubstr("--faults")));
  EXPECT_THAT(Validate({.cost_steps = 0}),
              StatusIs(Code::kInvalidArgument, HasSubstr("--cost-steps")));
}

}  // namespace
}  // namespace paceline::bench

#include "job/table_rules.h"

#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TrainConfig ClickConfig() {
  TrainConfig config;
  config.model = "ctr-dnn";
  return config;
}

TEST(TableRules, NothingSaidTakesEveryIdForEver) {
  const auto rules = RulesOfTable(ClickConfig(), "embedding");
  ASSERT_THAT(rules, IsOk());
  EXPECT_EQ(rules->admit_count, 1U);
  EXPECT_EQ(rules->admit_probability, 1.0);
  EXPECT_EQ(rules->evict_after, 0U);
  EXPECT_EQ(rules->optimizer, "");
  EXPECT_EQ(rules->lr_scale, 1.0);
}

TEST(TableRules, AValueIsForAllTablesButThoseNamed) {
  TrainConfig config = ClickConfig();
  config.admit_count = "3,rare=9";
  config.evict_after = "often=100";
  config.table_optimizer = "adagrad,often=sgd";
  config.table_lr_scale = "0.5";
  EXPECT_THAT(CheckTableFlags(config, **model::FindModel("ctr-dnn")), IsOk());
  EXPECT_EQ(RulesOfTable(config, "rare")->admit_count, 9U);
  EXPECT_EQ(RulesOfTable(config, "often")->admit_count, 3U);
  EXPECT_EQ(RulesOfTable(config, "often")->evict_after, 100U);
  EXPECT_EQ(RulesOfTable(config, "rare")->evict_after, 0U);
  EXPECT_EQ(RulesOfTable(config, "often")->optimizer, "sgd");
  EXPECT_EQ(RulesOfTable(config, "rare")->optimizer, "adagrad");
  EXPECT_EQ(RulesOfTable(config, "rare")->lr_scale, 0.5);
}

TEST(TableRules, WhatMakesNoSenseIsRefusedByName) {
  struct Case {
    void (*change)(TrainConfig& config);
    const char* says;
  };
  const Case cases[] = {
      {[](auto& c) { c.admit_count = "0"; }, "--admit-count is 0"},
      {[](auto& c) { c.admit_count = "x"; }, "--admit-count is 'x'"},
      {[](auto& c) { c.admit_count = "1,2"; }, "--admit-count is '1,2'"},
      {[](auto& c) { c.admit_count = "a=1,a=2"; }, "each table once"},
      {[](auto& c) { c.admit_count = "=1"; }, "--admit-count is '=1'"},
      {[](auto& c) { c.evict_after = "a=-1"; }, "--evict-after is '-1'"},
      {[](auto& c) { c.evict_after = "a="; }, "--evict-after is 'a='"},
      {[](auto& c) { c.admit_probability = "1.5"; }, "--admit-probability is 1.5"},
      {[](auto& c) { c.table_optimizer = "lamb"; }, "--table-optimizer is 'lamb'"},
      {[](auto& c) { c.table_lr_scale = "-1"; }, "--table-lr-scale is -1"},
      {[](auto& c) {
         c.admit_count = "2";
         c.admit_probability = "0.5";
       },
       "a table admits by one of them"},
      {[](auto& c) {
         c.mode = "geo";
         c.table_optimizer = "adam";
       },
       "it goes with sgd"},
      {[](auto& c) { c.model = "vgg16"; }, ""},
      {[](auto& c) {
         c.model = "vgg16";
         c.evict_after = "3";
       },
       "--evict-after goes with models with tables, which vgg16 is not"},
  };
  for (const Case& each : cases) {
    TrainConfig config = ClickConfig();
    each.change(config);
    const Status status = CheckTableFlags(config, **model::FindModel(config.model));
    if (*each.says == '\0') {
      EXPECT_THAT(status, IsOk());
    } else {
      EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, HasSubstr(each.says)));
    }
  }
}

TEST(TableRules, ATableThatTheModelHasNotIsRefused) {
  TrainConfig config = ClickConfig();
  config.evict_after = "words=5";
  EXPECT_THAT(CheckTableNames(config, std::vector<std::string>{"words", "contexts"}), IsOk());
  EXPECT_THAT(
      CheckTableNames(config, std::vector<std::string>{"embedding"}),
      StatusIs(Code::kInvalidArgument,
               HasSubstr("--evict-after: ctr-dnn has no table 'words'; it has: embedding")));
}

TEST(TableRules, BelongToTheIdentityOfARun) {
  TrainConfig config = ClickConfig();
  const auto before = config.Identity();
  config.evict_after = "100";
  const auto after = config.Identity();
  EXPECT_EQ(after.size(), before.size() + 1);
  EXPECT_EQ(after.at("evict-after"), "100");
}

}  // namespace
}  // namespace paceline::job

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
      {[](auto& c) {
         c.mode = "geo";
         c.table_optimizer = "momentum";
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

// Whatever is not refused must do something.
TEST(TableRules, WhatModelsWithTablesWouldIgnoreIsRefused) {
  struct Case {
    void (*change)(TrainConfig& config);
    const char* says;
    const char* model = "ctr-dnn";
  };
  const Case cases[] = {
      {[](auto& c) { c.optimizer = "lars"; }, "--optimizer lars"},
      {[](auto& c) { c.optimizer = "lamb"; }, "--optimizer lars and lamb"},
      {[](auto& c) { c.clip_norm = 1; }, "--clip-norm: ctr-dnn has no use for it"},
      {[](auto& c) { c.ema = 0.9; }, "--ema"},
      {[](auto& c) { c.loss_scale = "2"; }, "--loss-scale"},
      {[](auto& c) { c.keep_best = true; }, "--keep-best"},
      {[](auto& c) { c.patience = 1; }, "--patience"},
      {[](auto& c) { c.label_smoothing = 0.1; }, "--label-smoothing: ctr-dnn"},
      {[](auto& c) { c.mixup = 0.2; }, "--mixup mixes labelled images, which ctr-dnn"},
      {[](auto& c) { c.init_from = "file"; }, "--init-from: ctr-dnn has no use for it"},
      {[](auto& c) { c.init_from = "file"; }, "--init-from: word2vec", "word2vec"},
      {[](auto& c) { c.init_from = "file"; }, "--init-from: simnet-bow", "simnet-bow"},
      {[](auto& c) { c.trust_model_files = true; }, "--trust-model-files"},
      {[](auto& c) { c.worker_program = "mine"; }, "--worker-program"},
      {[](auto& c) { c.data_cache = "folder"; }, "--data-cache"},
      {[](auto& c) { c.image_size = 64; }, "--image-size"},
      {[](auto& c) { c.vocab = "file"; }, "--vocab"},
      {[](auto& c) { c.languages = "en-de"; }, "--languages"},
      {[](auto& c) { c.batch_tokens = 9; }, "--batch-tokens"},
      {[](auto& c) { c.lower_case = true; }, "--lower-case"},
      {[](auto& c) { c.augment = "none"; }, "--augment"},
      {[](auto& c) { c.data_threads = 2; }, "--data-threads"},
      {[](auto& c) { c.threads = 2; }, "--threads"},
      {[](auto& c) { c.engine = "gloo"; }, "--engine"},
      {[](auto& c) { c.bucket_kb = 1; }, "--bucket-kb"},
      {[](auto& c) { c.verify_every = 1; }, "--verify-every"},
      {[](auto& c) { c.blame_every = 1; }, "--blame-every"},
      {[](auto& c) { c.collective_timeout = 1; }, "--collective-timeout"},
      {[](auto& c) { c.keep = 9; }, "--keep"},
      {[](auto& c) { c.trace = "file"; }, "--trace"},
      {[](auto& c) { c.bad_record = "skip"; }, "--bad-record: simnet-bow", "simnet-bow"},
      {[](auto& c) { c.eval_samples = 9; }, "--eval-samples: word2vec", "word2vec"},
      {[](auto& c) { c.workers = 2; }, "--workers 2: ctr-dnn has tables, which several workers"},
      {[](auto& c) { c.min_workers = 1, c.workers = 2; }, "--workers 1:2: ctr-dnn has tables"},
      {[](auto& c) { c.strategy = "allreduce"; }, "--strategy allreduce: ctr-dnn has tables"},
  };
  for (const Case& each : cases) {
    TrainConfig config;
    config.model = each.model;
    each.change(config);
    EXPECT_THAT(Resolve(config, **model::FindModel(config.model), 4),
                StatusIs(Code::kInvalidArgument, HasSubstr(each.says)));
  }
}

TEST(TableRules, WhatModelsWithTablesUseIsTaken) {
  void (*const cases[])(TrainConfig & config) = {
      [](auto&) {},
      [](auto& c) { c.threads = 1, c.reproducible = true; },
      [](auto& c) { c.bad_record = "skip", c.eval_samples = 9; },
      [](auto& c) { c.prefetch = 5, c.checkpoint_every = 7, c.checkpoint_required = true; },
      [](auto& c) { c.shared_memory = "off", c.placement = "none", c.strategy = "ps"; },
      [](auto& c) { c.workers = 2, c.strategy = "ps"; },
  };
  for (const auto change : cases) {
    TrainConfig config = ClickConfig();
    change(config);
    EXPECT_THAT(Resolve(config, **model::FindModel("ctr-dnn"), 4), IsOk());
  }
}

TEST(TableRules, MomentumIsForTheRowsThatUseIt) {
  const auto resolve = [](const char* table_optimizer) {
    TrainConfig config = ClickConfig();  // whose optimizer is adagrad
    config.momentum = 0.8;
    config.table_optimizer = table_optimizer;
    return Resolve(config, **model::FindModel("ctr-dnn"), 4);
  };
  EXPECT_THAT(resolve("momentum"), IsOk());
  EXPECT_THAT(resolve("adam,embedding=momentum"), IsOk());
  EXPECT_THAT(resolve("momentum=adam"),  // a table of this name
              StatusIs(Code::kInvalidArgument, HasSubstr("--momentum goes with --optimizer sgd")));
  EXPECT_THAT(resolve("momentum,sgd"),
              StatusIs(Code::kInvalidArgument, HasSubstr("--table-optimizer is 'momentum,sgd'")));
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

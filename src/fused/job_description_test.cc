#include "fused/job_description.h"

#include <gmock/gmock.h>

#include "model/catalog.h"
#include "testing/status_matchers.h"

namespace paceline::fused {
namespace {

using ps::RowOptimizerKind;
using testing::IsOk;

// What the servers are told of a model whose tables are `input` and `output`.
ps::JobSpec Described(void (*change)(job::TrainConfig& config)) {
  job::TrainConfig config;
  config.model = "word2vec-small";
  change(config);
  EXPECT_THAT(job::Resolve(config, **model::FindModel(config.model), 1), IsOk());
  const ModelWithData model = MakeModel(config).value();
  return DescribeJob(config, model, 1).value();
}

TEST(JobDescription, OneTableMayHaveMomentumWhileTheRestDoesNot) {
  const ps::JobSpec spec = Described([](auto& c) {
    c.optimizer = "adagrad";
    c.table_optimizer = "output=momentum";
  });
  ASSERT_EQ(spec.tables.size(), 2U);
  EXPECT_EQ(spec.tables[0].options.optimizer.kind, RowOptimizerKind::kAdagrad);
  EXPECT_EQ(spec.tables[1].options.optimizer.kind, RowOptimizerKind::kMomentum);
  EXPECT_EQ(spec.tables[1].options.optimizer.momentum, 0.9F);
  EXPECT_EQ(spec.dense_optimizer.kind, RowOptimizerKind::kAdagrad);
}

TEST(JobDescription, TheUsersMomentumIsThatOfRows) {
  const ps::JobSpec spec = Described([](auto& c) {
    c.optimizer = "adagrad";
    c.momentum = 0.5;
    c.table_optimizer = "momentum";
  });
  for (const ps::JobTable& table : spec.tables) {
    EXPECT_EQ(table.options.optimizer.kind, RowOptimizerKind::kMomentum);
    EXPECT_EQ(table.options.optimizer.momentum, 0.5F);
  }
}

TEST(JobDescription, SgdOfRowsIsThatOfTheRest) {
  const ps::JobSpec spec = Described([](auto& c) {
    c.optimizer = "sgd";
    c.momentum = 0.5;
    c.table_optimizer = "sgd";
  });
  for (const ps::JobTable& table : spec.tables) {
    EXPECT_EQ(table.options.optimizer, spec.dense_optimizer);
    EXPECT_EQ(table.options.optimizer.kind, RowOptimizerKind::kMomentum);
  }
  const ps::JobSpec rows = Described([](auto& c) {
    c.optimizer = "sgd";
    c.table_optimizer = "momentum";
  });
  EXPECT_EQ(rows.dense_optimizer.kind, RowOptimizerKind::kSgd);
  EXPECT_EQ(rows.tables[0].options.optimizer.kind, RowOptimizerKind::kMomentum);
}

TEST(JobDescription, WhatDecayLeavesAloneHasNoL2OfFtrlEither) {
  const ps::JobSpec spec = Described([](auto& c) {
    c.optimizer = "ftrl";
    c.weight_decay = 0.25;
    c.decay_exclude = "input";
  });
  EXPECT_EQ(spec.tables[0].options.optimizer.ftrl_l2, 0.0F);
  EXPECT_EQ(spec.tables[1].options.optimizer.ftrl_l2, 0.25F);
  EXPECT_EQ(spec.OptimizerOf(ps::DenseKind::kParameter).ftrl_l2, 0.25F);
  EXPECT_EQ(spec.OptimizerOf(ps::DenseKind::kWithoutDecay).ftrl_l2, 0.0F);
}

}  // namespace
}  // namespace paceline::fused

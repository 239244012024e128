#pragma once

#include <cstdint>

#include "algo/batch_plan.h"
#include "base/status.h"
#include "fused/model_factory.h"
#include "job/train_config.h"
#include "ps/job_spec.h"

namespace paceline::fused {

// How trainers and servers work together; docs/architecture.md says what each mode promises.
enum class Mode {
  kSync,       // a step's gradients are added, applied once, and only then pulled; also local runs
  kAsync,      // each batch is applied as it comes
  kHalfAsync,  // a trainer merges several batches before it pushes
  kGeo,        // a trainer trains a copy and exchanges differences now and then
  kSsp,        // as async, but nobody is far ahead of the slowest
};
// Of a resolved configuration: a local run is a synchronous one of one trainer.
Result<Mode> ModeOf(const job::TrainConfig& config);

// Steps that one push of a trainer covers.
std::uint64_t StepsPerRound(const job::TrainConfig& config, Mode mode);

// Which samples each step of the run takes.
Result<algo::BatchPlan> PlanOf(const job::TrainConfig& config, std::uint64_t dataset_size);

// What the trainers of this run and their servers must agree on. kInvalidArgument names a setting
// that models with tables cannot follow.
Result<ps::JobSpec> DescribeJob(const job::TrainConfig& config, const ModelWithData& model,
                                std::uint64_t trainers);

}  // namespace paceline::fused

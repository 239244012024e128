#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "data/loader.h"
#include "job/phases.h"
#include "train/image_model.h"
#include "train/optimizer.h"
#include "train/parameters.h"
#include "train/shard_sum.h"

namespace paceline::train {

struct TrainerOptions {
  std::string model;
  std::uint64_t seed = 1;
  std::uint64_t shards = 1;  // V: virtual shards of the global batch
  OptimizerOptions optimizer;
  double clip_norm = 0;                    // 0: off
  std::optional<std::uint64_t> poison_at;  // for tests: this step's gradient becomes NaN
};

// What one step did.
struct StepOutcome {
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;  // by the parameters before the update
  double loss = 0;            // mean over the samples
  double gradient_norm = 0;   // before clipping
  bool applied = false;       // false: loss or gradient was not finite, and nothing was changed
};

// Model, parameters and optimiser of one worker, and how they take one step. The result of a step
// is a pure function of the state, the step number and the samples (at a given number of threads).
// Thread-compatible. Does not read data, save, or decide when to stop.
class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> Create(const TrainerOptions& options, const Clock& clock);

  // One batch per shard, in order, each lent until the next call.
  using NextBatch = std::function<Result<const data::Batch*>()>;

  // `samples` is the size of the whole step, the same for every shard of it.
  Result<StepOutcome> RunStep(Step step, std::uint64_t samples, double learning_rate,
                              const NextBatch& next);

  ImageModel& model() { return *model_; }
  FlatTensors& params() { return params_; }
  FlatTensors& buffers() { return buffers_; }
  Optimizer& optimizer() { return *optimizer_; }
  job::PhaseTimes& phases() { return phases_; }

 private:
  Trainer(const TrainerOptions& options, const Clock& clock, std::shared_ptr<ImageModel> model);

  Status RunShard(Step step, const data::Batch& batch, std::uint64_t samples, StepOutcome& outcome);
  void AddShardToSum(double weight);
  GradientSpans CollectGradient();
  bool Apply(double learning_rate, const GradientSpans& gradient, StepOutcome& outcome);

  TrainerOptions options_;
  const Clock& clock_;
  std::shared_ptr<ImageModel> model_;
  std::vector<torch::Tensor> parameters_;  // in the order of params_
  FlatTensors params_;
  FlatTensors buffers_;
  std::vector<float> buffers_before_;  // the step: to undo it, and for each shard to start from
  std::optional<Optimizer> optimizer_;
  std::optional<ShardSum> sum_;  // with more than one shard: gradient, then buffers
  job::PhaseTimes phases_;
};

// Threads that torch uses inside one operation; once per process, before the first tensor.
void SetTorchThreads(int threads);

}  // namespace paceline::train

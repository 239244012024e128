#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algo/loss_scale.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "data/loader.h"
#include "job/phases.h"
#include "train/gradient_exchange.h"
#include "train/loop_helper.h"
#include "train/optimizer.h"
#include "train/parameter_average.h"
#include "train/parameters.h"
#include "train/remote_parameters.h"
#include "train/step_report.h"
#include "train/zoo.h"

namespace paceline::train {

// For tests: sees each gradient of this worker before it is summed, and may spoil it or worse.
using GradientFault = std::function<void(Step step, std::size_t tensor, std::span<float>)>;
GradientFault PoisonAt(Step step);  // a NaN

struct TrainerOptions {
  std::uint64_t seed = 1;
  std::uint64_t shards = 1;  // V: virtual shards of the global batch
  OptimizerOptions optimizer;
  double clip_norm = 0;          // 0: off
  algo::LossScale loss_scale;    // to begin with
  double ema = 0;                // decay of the average of parameters; 0: none
  GradientFault gradient_fault;  // for tests; empty: none
  // The group with which gradients are summed; null: this worker owns all shards.
  collective::Engine* engine = nullptr;
  bool elastic = false;  // groups come and go: Attach()
  // Instead of a group: parameters live on servers, and this is trainer `rank` of `trainers`.
  std::uint64_t rank = 0;
  std::uint64_t trainers = 0;  // 0: no servers
  // Asked before a step changes anything; an error ends the step. Empty: always.
  std::function<Status()> may_commit;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  std::chrono::milliseconds timeout{300'000};  // of waiting for the group
};

// What one step did, over all workers.
struct StepOutcome {
  std::uint64_t samples = 0;
  double correct = 0;        // predictions, by the parameters before the update,
  double predictions = 0;    // of so many
  double loss = 0;           // mean over the samples
  double gradient_norm = 0;  // before clipping, without the loss scale
  double loss_scale = 1;
  bool overflowed = false;  // not applied, as happens with a loss scale; the next one is smaller
  bool applied = false;     // false: loss or gradient was not finite, and nothing was changed
  bool stop = false;        // some worker was asked to stop; all know after the same step
  bool view_ends = false;   // likewise: the group is about to change
  std::vector<double> busy_seconds;  // by worker: from the start of the step to its last gradient
  std::vector<job::BusyLink> links;  // by worker, as they came in
};

// Model, parameters and optimiser of one worker, and how they take one step. The result of a step
// is a pure function of the state, the step number and the samples (at a given number of threads).
// Thread-compatible. Does not read data, save, or decide when to stop.
class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> Create(BuiltModel model, const TrainerOptions& options,
                                                 const Clock& clock);

  // One batch per shard, in order, each lent until the next call.
  using NextBatch = std::function<Result<const data::Batch*>()>;

  struct StepInput {
    Step step;
    std::uint64_t samples = 0;  // of the whole step, the same for every shard of it
    double learning_rate = 0;
    // Where samples are lent: the step is this one batch of it. Else all shards of this worker.
    std::optional<ShardId> lent{};
    job::BusyLink link;      // of this worker, for the others to know
    bool stop = false;       // this worker was asked to stop
    bool view_ends = false;  // it was told that the group changes
  };
  // After an error the state is as before the step, except that of a group that keeps it once for
  // all workers of a host: who died there may have left an update by half.
  Result<StepOutcome> RunStep(const StepInput& input, const NextBatch& next);

  // A step on these samples that changes nothing: what is slow for the first time is done
  // afterwards.
  Status WarmUp(const data::BatchSource& source, std::size_t batch);
  // Works with this group from now on, or with none. Collective, except for none.
  Status Attach(collective::Engine* engine);
  // The order in which gradients come, from a worker that knows it. Collective.
  Status ShareOrder(Rank root);

  // Takes over the root's parameters, statistics and optimiser state. Collective.
  Status Synchronize(Rank root);
  // kInternal names the workers whose parameters differ from the first one's. Collective.
  Status VerifyReplicas();
  // Hash of everything that a step changes, and of each tensor of it by name.
  struct StateHash {
    std::string all;
    std::vector<std::pair<std::string, std::string>> tensors;
  };
  StateHash HashState() const;
  // When the buckets of the last step were reduced; empty without a group.
  std::vector<GradientExchange::Timing> ReductionTimings() const;

  // Of a trainer with servers, before the first step: from now on `remote` applies gradients.
  void Use(RemoteParameters& remote) { remote_ = &remote; }

  // The shards that this worker computes.
  ShardId first_shard() const;
  ShardId end_shard() const;

  const BuiltModel& model() const { return model_; }
  FlatTensors& params() { return params_; }
  FlatTensors& buffers() { return buffers_; }
  Optimizer& optimizer() { return *optimizer_; }
  ParameterAverage* average() { return average_ ? &*average_ : nullptr; }  // null: there is none
  algo::LossScale& loss_scale() { return loss_scale_; }
  job::PhaseTimes& phases() { return phases_; }

 private:
  Trainer(BuiltModel model, const TrainerOptions& options, const Clock& clock);

  Status PrepareExchange();
  Status ShareState();
  void InstallHooks();
  Result<StepOutcome> TryStep(const StepInput& input, const NextBatch& next);
  void OnGradient(std::size_t tensor);
  void HandIn(std::span<const std::size_t> tensors);
  Result<ShardReport> RunShard(const StepInput& input, const data::Batch& batch);
  Result<Tensors> Forward(const Tensors& batch, std::uint64_t dropout_key);
  void FinishShard(double weight);
  bool GroupFailed() const;
  Status InGroup(const std::function<Status(collective::Engine&)>& operation);
  Status ShareReport(const StepInput& input, RankReport mine, StepOutcome& outcome);
  Result<GradientSpans> CollectGradient();
  Status FinishRemote(const StepInput& input, const RankReport& mine, StepOutcome& outcome);
  algo::ShardLayout Layout() const;
  Rank Place() const;
  Result<std::vector<std::uint64_t>> LearnOrder();
  void UseOrder(std::vector<std::uint64_t> order);
  double UnscaledNorm(const GradientSpans& gradient) const;
  bool Apply(double learning_rate, const GradientSpans& gradient, StepOutcome& outcome);
  Status FinishUpdate();

  TrainerOptions options_;
  const Clock& clock_;
  algo::LossScale loss_scale_;
  BuiltModel model_;
  std::vector<torch::Tensor> parameters_;  // in the order of params_
  FlatTensors params_;
  FlatTensors buffers_;
  std::vector<float> buffers_before_;  // the step: to undo it, and for each shard to start from
  std::optional<Optimizer> optimizer_;
  Optimizer::Share share_;  // of the elements that this worker updates
  std::optional<ParameterAverage> average_;
  RemoteParameters* remote_ = nullptr;
  std::optional<collective::Queue> queue_;      // with a group beyond this host
  std::unique_ptr<GradientExchange> exchange_;  // with a group, servers or more than one shard
  std::optional<LoopHelper> helper_;            // with a group on this host
  std::vector<double> squared_norms_;           // with servers: of the gradients of this step
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // keep the hooks alive
  Step current_step_;
  double current_rate_ = 0;
  std::vector<std::uint64_t> order_;  // of gradients; empty: not known yet
  job::PhaseTimes phases_;
};

// Threads that torch uses inside one operation; once per process, before the first tensor.
void SetTorchThreads(int threads);

}  // namespace paceline::train

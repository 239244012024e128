#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

#include "base/rng.h"
#include "kernel/reduce.h"
#include "train/torch_guard.h"

namespace paceline::train {

using job::Phase;
using job::PhaseScope;

namespace {

// Came from another worker.
Status CheckOrder(std::vector<std::uint64_t> order) {
  std::ranges::sort(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) return Status::Error(Code::kProtocol, "not an order of gradients");
  }
  return {};
}

}  // namespace

void SetTorchThreads(int threads) {
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
}

Trainer::Trainer(BuiltModel model, const TrainerOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      loss_scale_(options.loss_scale),
      model_(std::move(model)),
      parameters_(model_.network->parameters()),
      params_(FlatTensors::OfParameters(*model_.network)),
      buffers_(FlatTensors::OfBuffers(*model_.network)),
      buffers_before_(buffers_.All().size()) {}

Result<std::unique_ptr<Trainer>> Trainer::Create(BuiltModel model, const TrainerOptions& options,
                                                 const Clock& clock) {
  return TorchGuard([&]() -> Result<std::unique_ptr<Trainer>> {
    std::unique_ptr<Trainer> trainer(new Trainer(std::move(model), options, clock));
    PACELINE_ASSIGN(Optimizer optimizer, Optimizer::Make(options.optimizer, trainer->params_));
    trainer->optimizer_ = std::move(optimizer);
    if (options.ema > 0) {
      trainer->average_.emplace(options.ema, trainer->params_, trainer->buffers_);
    }
    if (!options.elastic) {
      PACELINE_TRY(trainer->ShareState());
      PACELINE_TRY(trainer->PrepareExchange());
    }
    return trainer;
  });
}

// Who owns which shards: the group says, or the servers' trainers share evenly.
algo::ShardLayout Trainer::Layout() const {
  if (options_.engine != nullptr) return options_.engine->layout();
  return algo::ShardLayout::Even(options_.shards, std::max<std::uint64_t>(1, options_.trainers));
}

Rank Trainer::Place() const {
  return options_.engine != nullptr ? options_.engine->rank() : Rank(options_.rank);
}

ShardId Trainer::first_shard() const { return Layout().begin(Place()); }

ShardId Trainer::end_shard() const { return Layout().end(Place()); }

Status Trainer::PrepareExchange() {
  if (options_.engine == nullptr && options_.shards == 1 && options_.trainers == 0) return {};
  ExchangeOptions exchange{.layout = Layout(),
                           .rank = Place(),
                           .clock = &clock_,
                           .bucket_bytes = std::numeric_limits<std::size_t>::max(),
                           .timeout = options_.timeout};
  if (options_.engine != nullptr) {
    exchange.engine = options_.engine;
    // With several threads a worker's loops have other cores already.
    collective::IdleCores* const cores = options_.engine->idle_cores();
    if (cores != nullptr && at::get_num_threads() == 1) helper_.emplace(*cores);
    if (options_.engine->MovesDataBesideComputation()) {
      queue_.emplace(*options_.engine, clock_);
      exchange.queue = &*queue_;
      exchange.bucket_bytes = options_.bucket_bytes;
    }
  } else if (options_.trainers > 0) {
    squared_norms_.resize(parameters_.size());
    exchange.bucket_bytes = options_.bucket_bytes;
    exchange.ready = [this](std::span<const std::size_t> tensors) { HandIn(tensors); };
  }
  PACELINE_ASSIGN(exchange_, GradientExchange::Make(params_, buffers_.All().size(), exchange));
  if (!order_.empty()) exchange_->SetOrder(order_);
  if (accumulators_.empty()) InstallHooks();
  return {};
}

Status Trainer::Attach(collective::Engine* engine) {
  return TorchGuard([&]() -> Status {
    queue_.reset();  // ends what is in flight
    helper_.reset();
    exchange_.reset();
    options_.engine = engine;
    return engine != nullptr ? PrepareExchange() : Status();
  });
}

Status Trainer::ShareOrder(Rank root) {
  std::vector<std::uint64_t> order(parameters_.size() + 1);
  order.back() = order_.empty() ? 0 : 1;
  std::ranges::copy(order_, order.begin());
  PACELINE_TRY(options_.engine->Broadcast(std::as_writable_bytes(std::span(order)), root));
  const bool known = order.back() == 1;
  order.pop_back();
  order_.clear();
  if (!known) return {};
  PACELINE_TRY(CheckOrder(order));
  UseOrder(std::move(order));
  return {};
}

Status Trainer::WarmUp(const data::BatchSource& source, std::size_t batch) {
  return TorchGuard([&]() -> Status {
    std::ranges::copy(buffers_.All(), buffers_before_.begin());
    PACELINE_ASSIGN(data::EvalBatches batches, data::EvalBatches::Create(source, batch));
    PACELINE_ASSIGN(const data::Batch* samples, batches.Next());
    if (samples == nullptr) return {};
    const Tensors tensors = AsTensors(*samples);
    const Tensors outputs = model_.network->Forward(tensors, {.training = true});
    model_.objective->Compute(outputs, tensors).sum.backward();
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    std::ranges::copy(buffers_before_, buffers_.All().begin());
    return {};
  });
}

// A hook on each parameter's accumulator runs when its gradient is complete, inside backward.
void Trainer::InstallHooks() {
  accumulators_.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](const torch::autograd::variable_list& outputs,
                  const torch::autograd::variable_list&) {
          OnGradient(i);
          return outputs;
        }));
    accumulators_.push_back(std::move(accumulator));
  }
}

GradientFault PoisonAt(Step step) {
  return [step](Step now, std::size_t tensor, std::span<float> gradient) {
    if (now == step && tensor == 0) gradient[0] = std::numeric_limits<float>::quiet_NaN();
  };
}

void Trainer::OnGradient(std::size_t tensor) {
  if (!exchange_) return;
  if (GroupFailed()) throw std::runtime_error("the group is gone");  // caught by TorchGuard
  const torch::Tensor gradient = parameters_[tensor].grad().contiguous();
  const std::span values(gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel()));
  if (options_.gradient_fault) options_.gradient_fault(current_step_, tensor, values);
  exchange_->Put(tensor, values);
  // The next gradient gets this memory while it is still in the cache.
  parameters_[tensor].mutable_grad().reset();
}

Result<StepOutcome> Trainer::RunStep(const StepInput& input, const NextBatch& next) {
  std::ranges::copy(buffers_.All(), buffers_before_.begin());
  auto outcome = TryStep(input, next);
  if (!outcome.ok() || (!outcome->applied && remote_ == nullptr)) {
    std::ranges::copy(buffers_before_, buffers_.All().begin());
  }
  if (!outcome.ok() && remote_ != nullptr) {
    remote_->Abandon();
    PACELINE_TRY(remote_->Await());  // forward was cut short because these did not arrive
  }
  // Backward was cut short because a reduction had failed: that is the cause.
  if (!outcome.ok() && GroupFailed()) return options_.engine->failure();
  return outcome;
}

Result<StepOutcome> Trainer::TryStep(const StepInput& input, const NextBatch& next) {
  return TorchGuard([&]() -> Result<StepOutcome> {
    const Instant started = clock_.Now();
    StepOutcome outcome;
    RankReport mine{.link = input.link, .stop = input.stop, .view_ends = input.view_ends};
    current_step_ = input.step;
    current_rate_ = input.learning_rate;
    if (exchange_) exchange_->StartStep();
    for (ShardId shard = first_shard(); shard < end_shard(); shard = shard.Next()) {
      const Instant wait_from = clock_.Now();
      phases_.Begin(Phase::kData);
      PACELINE_ASSIGN(const data::Batch* batch, next());
      phases_.AddScope(Phase::kData, wait_from, clock_.Now());
      PACELINE_CHECK(batch != nullptr && batch->step == input.step &&
                         batch->shard == input.lent.value_or(shard),
                     "batches come in order");
      PACELINE_ASSIGN(const ShardReport report, RunShard(input, *batch));
      mine.shards.push_back(report);
    }
    mine.busy_seconds = ToSeconds(clock_.Now() - started);
    if (remote_ != nullptr) {
      PACELINE_TRY(FinishRemote(input, mine, outcome));
      return outcome;
    }
    PACELINE_TRY(ShareReport(input, std::move(mine), outcome));
    PACELINE_ASSIGN(const GradientSpans gradient, CollectGradient());
    std::vector<std::uint64_t> learnt;
    if (queue_ && order_.empty()) {
      PACELINE_ASSIGN(learnt, LearnOrder());
    }
    if (options_.may_commit) PACELINE_TRY(options_.may_commit());
    outcome.applied = Apply(input.learning_rate, gradient, outcome);
    if (outcome.applied) PACELINE_TRY(FinishUpdate());
    if (!learnt.empty()) UseOrder(std::move(learnt));
    return outcome;
  });
}

Result<ShardReport> Trainer::RunShard(const StepInput& input, const data::Batch& batch) {
  ShardReport report{.samples = batch.count};
  const LoopHelper::Scope helped(helper_ ? &*helper_ : nullptr);
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  if (exchange_) std::ranges::copy(buffers_before_, buffers_.All().begin());
  if (batch.count > 0) {
    Loss loss;
    {
      const PhaseScope scope(clock_, phases_, Phase::kForward);
      const std::uint64_t key =
          DeriveKey(options_.seed, Purpose::kDropout, input.step.value(), batch.shard.value());
      const Tensors tensors = AsTensors(batch);
      PACELINE_ASSIGN(const Tensors outputs, Forward(tensors, key));
      loss = model_.objective->Compute(outputs, tensors);
      report.loss = loss.sum.item<double>();
      report.correct = loss.correct;
      report.predictions = loss.predictions;
    }
    const PhaseScope scope(clock_, phases_, Phase::kBackward);
    const torch::Tensor mean = loss.sum.div(static_cast<double>(input.samples));
    (loss_scale_.scale == 1 ? mean : mean.mul(loss_scale_.scale)).backward();
  }
  if (exchange_) {
    const auto all = static_cast<double>(std::max<std::uint64_t>(1, input.samples));
    FinishShard(static_cast<double>(batch.count) / all);
  }
  return report;
}

// Parameters that come from servers may still be on their way when the pass begins. Time in which
// it stands still is none of the pass.
Result<Tensors> Trainer::Forward(const Tensors& batch, std::uint64_t dropout_key) {
  ForwardContext context{.training = true, .dropout_key = dropout_key, .places = exchange_.get()};
  if (remote_ == nullptr) return model_.network->Forward(batch, context);
  if (!model_.network->AwaitsParameters()) PACELINE_TRY(remote_->Await());
  context.gate = &remote_->arriving();
  Tensors outputs = model_.network->Forward(batch, context);
  PACELINE_TRY(remote_->Await());
  const std::chrono::nanoseconds waited = remote_->arriving().TakeWaited();
  phases_.Add(Phase::kForward, -waited);
  phases_.Add(Phase::kWait, waited);
  return outputs;
}

// A shard's running statistics count with its share of the samples, like its gradient.
void Trainer::FinishShard(double weight) {
  const PhaseScope scope(clock_, phases_, Phase::kReduce);
  kernel::Scale(buffers_.All(), static_cast<float>(weight));
  exchange_->FinishShard(buffers_.All());
}

bool Trainer::GroupFailed() const {
  return options_.engine != nullptr && !options_.engine->failure().ok();
}

// After what the queue has been given before, if there is one.
Status Trainer::InGroup(const std::function<Status(collective::Engine&)>& operation) {
  if (!queue_) return operation(*options_.engine);
  const collective::Work work = queue_->Start(operation);
  const Status status = work.Wait(options_.timeout);
  if (status.code() != Code::kTimeout) return status;
  queue_->Cancel(status);
  return work.Wait(options_.timeout);
}

// Losses are added in the order of shards, whoever computed them.
Status Trainer::ShareReport(const StepInput& input, RankReport mine, StepOutcome& outcome) {
  StepReport report;
  if (options_.engine != nullptr) {
    const PhaseScope scope(clock_, phases_, Phase::kWait);
    PACELINE_TRY(InGroup([&](collective::Engine& engine) -> Status {
      PACELINE_ASSIGN(report, ExchangeReports(engine, mine));
      return {};
    }));
  } else {
    report = {std::move(mine.shards), {mine.busy_seconds}, {}, mine.stop, mine.view_ends};
  }
  for (const ShardReport& shard : report.shards) {
    outcome.loss += shard.loss;
    outcome.correct += shard.correct;
    outcome.predictions += shard.predictions;
    outcome.samples += shard.samples;
  }
  outcome.loss /= static_cast<double>(input.samples);
  outcome.stop = report.stop;
  outcome.view_ends = report.view_ends;
  outcome.busy_seconds = std::move(report.busy_seconds);
  outcome.links = std::move(report.links);
  return {};
}

Result<GradientSpans> Trainer::CollectGradient() {
  GradientSpans spans;
  spans.reserve(parameters_.size());
  if (exchange_) {
    const PhaseScope scope(clock_, phases_, Phase::kWait);
    PACELINE_TRY(exchange_->Wait());
    for (std::size_t i = 0; i < parameters_.size(); ++i) spans.push_back(exchange_->Gradient(i));
    std::ranges::copy(exchange_->Statistics(), buffers_.All().begin());
    return spans;
  }
  for (torch::Tensor& parameter : parameters_) {
    if (!parameter.grad().is_contiguous()) parameter.mutable_grad() = parameter.grad().contiguous();
    spans.emplace_back(parameter.mutable_grad().data_ptr<float>(),
                       static_cast<std::size_t>(parameter.numel()));
  }
  for (std::size_t i = 0; options_.gradient_fault && i < spans.size(); ++i) {
    options_.gradient_fault(current_step_, i, spans[i]);
  }
  return spans;
}

// All workers cut their buckets in the order that the first one has seen.
Result<std::vector<std::uint64_t>> Trainer::LearnOrder() {
  std::vector<std::uint64_t> order = exchange_->order();
  PACELINE_TRY(InGroup([&](collective::Engine& engine) {
    return engine.Broadcast(std::as_writable_bytes(std::span(order)), Rank(0));
  }));
  PACELINE_TRY(CheckOrder(order));
  return order;
}

// Not between backward and the update: the buckets are emptied.
void Trainer::UseOrder(std::vector<std::uint64_t> order) {
  exchange_->SetOrder(order);
  order_ = std::move(order);
}

std::vector<GradientExchange::Timing> Trainer::ReductionTimings() const {
  return exchange_ ? exchange_->Timings() : std::vector<GradientExchange::Timing>();
}

double Trainer::UnscaledNorm(const GradientSpans& gradient) const {
  double squared = 0;
  for (const std::span<float> part : gradient) {
    if (loss_scale_.scale != 1) kernel::Scale(part, static_cast<float>(1 / loss_scale_.scale));
    squared += kernel::SquaredNorm(part);
  }
  return std::sqrt(squared);
}

bool Trainer::Apply(double learning_rate, const GradientSpans& gradient, StepOutcome& outcome) {
  const PhaseScope scope(clock_, phases_, Phase::kApply);
  outcome.gradient_norm = UnscaledNorm(gradient);
  outcome.loss_scale = loss_scale_.scale;
  const bool finite = std::isfinite(outcome.gradient_norm) && std::isfinite(outcome.loss);
  outcome.overflowed = !finite && std::isfinite(outcome.loss) && loss_scale_.CanShrink();
  loss_scale_.After(finite);
  if (!finite) return false;
  if (options_.clip_norm > 0 && outcome.gradient_norm > options_.clip_norm) {
    const auto factor = static_cast<float>(options_.clip_norm / outcome.gradient_norm);
    for (const std::span<float> part : gradient) kernel::Scale(part, factor);
  }
  optimizer_->Apply(learning_rate, gradient, share_);
  return true;
}

Status Trainer::FinishUpdate() {
  if (share_.of > 1) {  // nobody computes with parameters of which another slice is still old
    const PhaseScope scope(clock_, phases_, Phase::kWait);
    PACELINE_TRY(options_.engine->Barrier());
  }
  if (average_) average_->Update(optimizer_->updates());
  return {};
}

}  // namespace paceline::train

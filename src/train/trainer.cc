#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <torch/torch.h>

#include "base/rng.h"
#include "kernel/reduce.h"
#include "train/torch_guard.h"

namespace paceline::train {

using job::Phase;
using job::PhaseScope;

namespace {

torch::Tensor ImageTensor(const data::Batch& batch) {
  const auto count = static_cast<std::int64_t>(batch.count);
  constexpr data::ImageShape kShape = data::kImageShape;
  return torch::from_blob(batch.images.data(),
                          {count, kShape.channels, kShape.height, kShape.width}, torch::kFloat);
}

torch::Tensor LabelTensor(const data::Batch& batch) {
  return torch::from_blob(const_cast<std::int64_t*>(batch.labels.data()),
                          {static_cast<std::int64_t>(batch.count)}, torch::kLong);
}

}  // namespace

void SetTorchThreads(int threads) {
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
}

Trainer::Trainer(const TrainerOptions& options, const Clock& clock,
                 std::shared_ptr<ImageModel> model)
    : options_(options),
      clock_(clock),
      model_(std::move(model)),
      parameters_(model_->parameters()),
      params_(FlatTensors::OfParameters(*model_)),
      buffers_(FlatTensors::OfBuffers(*model_)),
      buffers_before_(buffers_.All().size()) {
  if (options.shards > 1) {
    sum_.emplace(options.shards, params_.All().size() + buffers_.All().size());
  }
}

Result<std::unique_ptr<Trainer>> Trainer::Create(const TrainerOptions& options,
                                                 const Clock& clock) {
  return TorchGuard([&]() -> Result<std::unique_ptr<Trainer>> {
    PACELINE_ASSIGN(auto model, BuildImageModel(options.model, options.seed));
    std::unique_ptr<Trainer> trainer(new Trainer(options, clock, std::move(model)));
    PACELINE_ASSIGN(Optimizer optimizer, Optimizer::Make(options.optimizer, trainer->params_));
    trainer->optimizer_ = std::move(optimizer);
    return trainer;
  });
}

Result<StepOutcome> Trainer::RunStep(Step step, std::uint64_t samples, double learning_rate,
                                     const NextBatch& next) {
  return TorchGuard([&]() -> Result<StepOutcome> {
    StepOutcome outcome;
    std::ranges::copy(buffers_.All(), buffers_before_.begin());
    if (sum_) sum_->Start();
    for (std::uint64_t shard = 0; shard < options_.shards; ++shard) {
      const Instant wait_from = clock_.Now();
      PACELINE_ASSIGN(const data::Batch* batch, next());
      phases_.Add(Phase::kData, clock_.Now() - wait_from);
      PACELINE_CHECK(batch != nullptr && batch->step == step && batch->shard == ShardId(shard),
                     "batches come in order");
      PACELINE_TRY(RunShard(step, *batch, samples, outcome));
    }
    outcome.loss /= static_cast<double>(samples);
    const GradientSpans gradient = CollectGradient();
    if (options_.poison_at == step.value()) {
      gradient.front()[0] = std::numeric_limits<float>::quiet_NaN();
    }
    outcome.applied = Apply(learning_rate, gradient, outcome);
    if (!outcome.applied) std::ranges::copy(buffers_before_, buffers_.All().begin());
    return outcome;
  });
}

Status Trainer::RunShard(Step step, const data::Batch& batch, std::uint64_t samples,
                         StepOutcome& outcome) {
  const double weight = static_cast<double>(batch.count) / static_cast<double>(samples);
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  if (sum_) std::ranges::copy(buffers_before_, buffers_.All().begin());
  if (batch.count > 0) {
    torch::Tensor loss;
    {
      const PhaseScope scope(clock_, phases_, Phase::kForward);
      const ForwardContext context{.training = true,
                                   .dropout_key = DeriveKey(options_.seed, Purpose::kDropout,
                                                            step.value(), batch.shard.value())};
      const torch::Tensor labels = LabelTensor(batch);
      const torch::Tensor logits = model_->Forward(ImageTensor(batch), context);
      loss = torch::nn::functional::cross_entropy(
          logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
      outcome.loss += loss.item<double>();
      outcome.correct +=
          static_cast<std::uint64_t>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
      outcome.samples += batch.count;
    }
    const PhaseScope scope(clock_, phases_, Phase::kBackward);
    loss.div(static_cast<double>(samples)).backward();
  }
  if (sum_) AddShardToSum(weight);
  return {};
}

// A shard's running statistics count with its share of the samples, like its gradient.
void Trainer::AddShardToSum(double weight) {
  const PhaseScope scope(clock_, phases_, Phase::kReduce);
  const std::span<float> leaf = sum_->NextLeaf();
  std::ranges::fill(leaf, 0.0F);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;  // an empty shard
    const torch::Tensor gradient = parameters_[i].grad().contiguous();
    const NamedRange& range = params_.ranges()[i];
    std::copy_n(gradient.data_ptr<float>(), range.count,
                leaf.begin() + static_cast<std::ptrdiff_t>(range.offset));
  }
  const std::span<float> statistics = leaf.subspan(params_.All().size());
  std::ranges::copy(buffers_.All(), statistics.begin());
  kernel::Scale(statistics, static_cast<float>(weight));
  sum_->Commit();
}

GradientSpans Trainer::CollectGradient() {
  GradientSpans spans;
  if (sum_) {
    const std::span<float> total = sum_->Total();
    for (const NamedRange& range : params_.ranges()) {
      spans.push_back(total.subspan(range.offset, range.count));
    }
    std::ranges::copy(total.subspan(params_.All().size()), buffers_.All().begin());
    return spans;
  }
  for (torch::Tensor& parameter : parameters_) {
    if (!parameter.grad().is_contiguous()) parameter.mutable_grad() = parameter.grad().contiguous();
    spans.emplace_back(parameter.mutable_grad().data_ptr<float>(),
                       static_cast<std::size_t>(parameter.numel()));
  }
  return spans;
}

bool Trainer::Apply(double learning_rate, const GradientSpans& gradient, StepOutcome& outcome) {
  const PhaseScope scope(clock_, phases_, Phase::kApply);
  double squared = 0;
  for (const std::span<float> part : gradient) squared += kernel::SquaredNorm(part);
  outcome.gradient_norm = std::sqrt(squared);
  if (!std::isfinite(outcome.gradient_norm) || !std::isfinite(outcome.loss)) return false;
  if (options_.clip_norm > 0 && outcome.gradient_norm > options_.clip_norm) {
    const auto factor = static_cast<float>(options_.clip_norm / outcome.gradient_norm);
    for (const std::span<float> part : gradient) kernel::Scale(part, factor);
  }
  optimizer_->Apply(learning_rate, gradient);
  return true;
}

}  // namespace paceline::train

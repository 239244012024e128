// The part of Trainer whose parameters live on servers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel/reduce.h"
#include "train/trainer.h"

namespace paceline::train {

using job::Phase;
using job::PhaseScope;

// The sums of these tensors are complete; the servers may have them while backward goes on.
void Trainer::HandIn(std::span<const std::size_t> tensors) {
  if (remote_ == nullptr) return;
  for (const std::size_t tensor : tensors) {
    const std::span<float> gradient = exchange_->Gradient(tensor);
    if (loss_scale_.scale != 1) kernel::Scale(gradient, static_cast<float>(1 / loss_scale_.scale));
    squared_norms_[tensor] = kernel::SquaredNorm(gradient);
    remote_->HandIn(current_rate_, gradient);
  }
}

// The servers add up what all trainers hand in and update the parameters. A gradient that is not
// finite counts as zero, with the statistics as they were.
Status Trainer::FinishRemote(const StepInput& input, const RankReport& mine, StepOutcome& outcome) {
  RemoteReport report{.stop = input.stop};
  for (const ShardReport& shard : mine.shards) {
    report.loss += shard.loss;
    report.correct += shard.correct;
    report.predictions += shard.predictions;
    report.samples += static_cast<double>(shard.samples);
  }
  PACELINE_ASSIGN(const GradientSpans gradient, CollectGradient());
  outcome.gradient_norm =
      std::sqrt(std::accumulate(squared_norms_.begin(), squared_norms_.end(), 0.0));
  outcome.loss_scale = loss_scale_.scale;
  report.finite = std::isfinite(outcome.gradient_norm) && std::isfinite(report.loss);
  if (!report.finite) {
    report.loss = 0;
    for (const std::span<float> part : gradient) std::ranges::fill(part, 0.0F);
    std::ranges::copy(buffers_before_, buffers_.All().begin());
    kernel::Scale(buffers_.All(),
                  static_cast<float>(report.samples / static_cast<double>(input.samples)));
  }
  const PhaseScope scope(clock_, phases_, Phase::kWait);
  PACELINE_TRY(remote_->Exchange(input.learning_rate, gradient, buffers_.All(), report));
  remote_->arriving().TakeWaited();  // is in this phase already
  outcome.samples = static_cast<std::uint64_t>(report.samples);
  outcome.correct = report.correct;
  outcome.predictions = report.predictions;
  outcome.loss = report.samples > 0 ? report.loss / report.samples : 0;
  outcome.stop = report.stop;
  outcome.applied = report.finite;
  outcome.busy_seconds = {mine.busy_seconds};
  return {};
}

}  // namespace paceline::train

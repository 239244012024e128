#include "fused/trainer_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/reduce.h"

namespace paceline::fused {

namespace {

double MeanOf(const sparse::StepLoss& loss) {
  return loss.samples == 0 ? 0 : loss.sum / static_cast<double>(loss.samples);
}

void AddTo(sparse::StepLoss& sum, const sparse::StepLoss& loss) {
  sum.sum += loss.sum;
  sum.samples += loss.samples;
}

}  // namespace

TrainerLoop::TrainerLoop(sparse::FusedModel& model, const ps::JobSpec& spec, ps::Store& store,
                         const Options& options, const Clock& clock)
    : model_(model),
      spec_(spec),
      store_(store),
      options_(options),
      clock_(clock),
      rows_(model.tables()),
      dense_(spec.DenseFloats()),
      dense_gradient_(dense_.size()),
      dense_one_(dense_.size()) {}

Result<std::unique_ptr<TrainerLoop>> TrainerLoop::Open(sparse::FusedModel& model,
                                                       const ps::JobSpec& spec, ps::Store& store,
                                                       const Options& options, const Clock& clock) {
  std::unique_ptr<TrainerLoop> loop(new TrainerLoop(model, spec, store, options, clock));
  model.InitialiseDense(options.seed, loop->dense_);
  PACELINE_TRY(store.Initialise(loop->dense_).Wrap("the first values of the parameters"));
  const TrainerShare& share = options.share;
  PACELINE_ASSIGN(const std::uint64_t round, store.NextBatch(share.rank));
  loop->steps_ = std::min(share.FirstStep(round), share.plan.Steps());
  if (options.mode == Mode::kGeo) {
    PACELINE_ASSIGN(loop->geo_, GeoCopy::Begin(store, spec, {share.rank, share.world}));
  }
  const std::size_t batches_per_step = share.RangesOf(0).size();
  loop->queue_ = std::make_unique<BatchQueue>(
      model, BatchQueue::Options{share, loop->steps_, options.prefetch * batches_per_step});
  return loop;
}

Status TrainerLoop::TakeBatches(std::uint64_t steps) {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kData);
  const std::size_t count = steps * options_.share.RangesOf(0).size();
  for (std::size_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN(auto batch, queue_->Next());
    batches_.push_back(std::move(batch));
  }
  return {};
}

void TrainerLoop::GiveBack() {
  for (auto& batch : batches_) queue_->Recycle(std::move(batch));
  batches_.clear();
}

std::uint64_t TrainerLoop::OwnSamples() const {
  std::uint64_t samples = 0;
  for (const auto& batch : batches_) samples += batch->samples;
  return samples;
}

Result<StepOutcome> TrainerLoop::Next() {
  auto outcome = geo_ ? NextGeoStep() : NextRound();
  if (outcome.ok()) GiveBack();
  return outcome;
}

Result<StepOutcome> TrainerLoop::NextRound() {
  const TrainerShare& share = options_.share;
  const std::uint64_t round = Round(), end = share.EndStep(round);
  StepOutcome outcome{.learning_rate = algo::LearningRateAt(options_.schedule, steps_)};
  PACELINE_TRY(TakeBatches(end - steps_));
  outcome.samples = OwnSamples();
  ps::PullAnswer pulled;
  if (outcome.samples > 0) {
    rows_.Begin(batches_);
    PACELINE_ASSIGN(pulled, Pull(round));
    // Synchronous gradients are added up by the servers: each is a part of the whole step's mean.
    const std::uint64_t whole =
        options_.mode == Mode::kSync ? share.plan.StepSamples(Step(steps_)) : outcome.samples;
    const sparse::StepLoss loss = Compute(1 / static_cast<float>(whole));
    outcome.loss = MeanOf(loss);
    outcome.applied = std::isfinite(loss.sum) && rows_.Finite() &&
                      std::isfinite(kernel::SquaredNorm(dense_gradient_));
  }
  // Without gradients it still says that this trainer has done its part of the round.
  PACELINE_TRY(
      PushRound(round, outcome.learning_rate, pulled, outcome.applied && outcome.samples > 0));
  steps_ = end;
  outcome.steps = steps_;
  return outcome;
}

Result<ps::PullAnswer> TrainerLoop::Pull(std::uint64_t round) {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kWait);
  ps::PullRequest request{.trainer = options_.share.rank};
  if (options_.mode == Mode::kSync) request.min_version = round;
  if (options_.mode == Mode::kSsp) {
    request.min_version = round - std::min(round, options_.staleness);
  }
  request.rows = rows_.Wanted();
  request.dense = dense_;
  return store_.Pull(request);
}

sparse::StepLoss TrainerLoop::Compute(float scale) {
  // Forward and backward are one pass.
  const job::PhaseScope scope(clock_, phases_, job::Phase::kBackward);
  sparse::StepLoss sum;
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    const auto rows = rows_.RowsOf(b);
    std::span<float> gradient = b == 0 ? dense_gradient_ : dense_one_;
    if (batches_[b]->samples == 0) {
      std::ranges::fill(gradient, 0.0F);
    } else {
      AddTo(sum, model_.Compute(*batches_[b], dense_, scale, gradient, rows));
    }
    rows_.Add(b);
    if (b == 0) continue;
    for (std::size_t i = 0; i < dense_one_.size(); ++i) dense_gradient_[i] += dense_one_[i];
  }
  return sum;
}

Status TrainerLoop::PushRound(std::uint64_t round, double learning_rate,
                              const ps::PullAnswer& pulled, bool with_gradients) {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kApply);
  ps::Push push{.lease = options_.share.rank,
                .batch = round,
                .learning_rate = static_cast<float>(learning_rate),
                .trainers = options_.share.world};
  if (with_gradients) {
    push.tables = rows_.Gradients();
    push.dense = dense_gradient_;
  }
  return store_.Push(push, pulled.pushes);
}

Result<StepOutcome> TrainerLoop::NextGeoStep() {
  StepOutcome outcome{.learning_rate = algo::LearningRateAt(options_.schedule, steps_)};
  PACELINE_TRY(TakeBatches(1));
  sparse::StepLoss sum;
  for (const auto& batch : batches_) {
    if (batch->samples == 0) continue;
    {
      const job::PhaseScope scope(clock_, phases_, job::Phase::kWait);
      PACELINE_TRY(geo_->Fetch(*batch));
    }
    const job::PhaseScope scope(clock_, phases_, job::Phase::kBackward);
    const auto rows = geo_->RowsOf(*batch);
    const sparse::StepLoss loss = model_.Compute(
        *batch, geo_->dense(), 1 / static_cast<float>(batch->samples), dense_gradient_, rows);
    AddTo(sum, loss);
    outcome.applied = outcome.applied && std::isfinite(loss.sum);
    if (std::isfinite(loss.sum)) {
      geo_->Apply(*batch, dense_gradient_, static_cast<float>(outcome.learning_rate));
    }
  }
  outcome.samples = OwnSamples();
  outcome.loss = MeanOf(sum);
  const std::uint64_t round = Round();
  ++steps_;
  if (steps_ == options_.share.EndStep(round)) {
    const job::PhaseScope scope(clock_, phases_, job::Phase::kApply);
    PACELINE_TRY(geo_->Exchange(round));
  }
  outcome.steps = steps_;
  return outcome;
}

std::uint64_t TrainerLoop::VersionNow() const {
  if (Done()) return options_.share.Rounds();
  return options_.mode == Mode::kSync ? Round() : 0;
}

}  // namespace paceline::fused

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
      dense_gradient_(spec.DenseFloats()),
      dense_one_(dense_gradient_.size()) {}

Status InitialiseParameters(const sparse::FusedModel& model, const ps::JobSpec& spec,
                            ps::Store& store, std::uint64_t seed) {
  std::vector<float> dense(spec.DenseFloats());
  model.InitialiseDense(seed, dense);
  return store.Initialise(dense).Wrap("the first values of the parameters");
}

Result<std::unique_ptr<TrainerLoop>> TrainerLoop::Open(sparse::FusedModel& model,
                                                       const ps::JobSpec& spec, ps::Store& store,
                                                       const Options& options, const Clock& clock) {
  std::unique_ptr<TrainerLoop> loop(new TrainerLoop(model, spec, store, options, clock));
  const algo::TrainerShare& share = options.share;
  PACELINE_ASSIGN(const std::uint64_t next, store.NextBatch(share.lease));
  const std::uint64_t round = std::min(next, share.Rounds());
  loop->steps_ = std::min(share.FirstStep(round), share.plan.Steps());
  if (options.mode == Mode::kGeo) {
    PACELINE_ASSIGN(loop->geo_, GeoCopy::Begin(store, spec,
                                               {.trainer = options.trainer,
                                                .trainers = options.trainers,
                                                .lease = share.lease}));
  }
  const std::size_t batches_per_step = share.RangesOf(0).size();
  loop->queue_ = std::make_unique<BatchQueue>(
      model, BatchQueue::Options{share, loop->steps_, options.prefetch * batches_per_step});
  if (loop->geo_) return loop;
  // Servers compensate delays with what a trainer pulled last: that must be what it computed with.
  const bool ahead = options.pull_ahead && spec.delay_compensation == 0;
  loop->rounds_ = std::make_unique<RoundSource>(model, spec.DenseFloats(), store, *loop->queue_,
                                                RoundSource::Options{.mode = options.mode,
                                                                     .share = share,
                                                                     .first_round = round,
                                                                     .staleness = options.staleness,
                                                                     .ahead = ahead},
                                                clock);
  return loop;
}

Result<StepOutcome> TrainerLoop::Next() { return geo_ ? NextGeoStep() : NextRound(); }

Result<StepOutcome> TrainerLoop::NextRound() {
  const algo::TrainerShare& share = options_.share;
  const std::uint64_t number = Round();
  StepOutcome outcome{.learning_rate =
                          algo::LearningRateAt(options_.schedule, share.RunStep(steps_))};
  PACELINE_ASSIGN(PulledRound* const round, rounds_->Next(phases_));
  outcome.samples = round->samples;
  if (!round->pulled.pushes.empty()) outcome.pushes = round->pulled.pushes.front();
  if (outcome.samples > 0) {
    // Synchronous gradients are added up by the servers: each is a part of the whole step's mean.
    const std::uint64_t whole =
        options_.mode == Mode::kSync ? share.plan.StepSamples(Step(steps_)) : outcome.samples;
    const sparse::StepLoss loss = Compute(*round, 1 / static_cast<float>(whole));
    outcome.loss = MeanOf(loss);
    outcome.applied =
        std::isfinite(loss.sum) && round->rows.Finite() && kernel::AllFinite(dense_gradient_);
  }
  // Without gradients it still says that this trainer has done its part of the round.
  PACELINE_TRY(
      PushRound(number, outcome.learning_rate, *round, outcome.applied && outcome.samples > 0));
  steps_ = share.EndStep(number);
  outcome.steps = steps_;
  return outcome;
}

sparse::StepLoss TrainerLoop::Compute(PulledRound& round, float scale) {
  // Forward and backward are one pass.
  const job::PhaseScope scope(clock_, phases_, job::Phase::kBackward);
  sparse::StepLoss sum;
  for (std::size_t b = 0; b < round.batches.size(); ++b) {
    const auto rows = round.rows.RowsOf(b);
    std::span<float> gradient = b == 0 ? dense_gradient_ : dense_one_;
    if (round.batches[b]->samples == 0) {
      std::ranges::fill(gradient, 0.0F);
    } else {
      AddTo(sum, model_.Compute(*round.batches[b], round.dense, scale, gradient, rows));
    }
    round.rows.Add(b);
    if (b == 0) continue;
    for (std::size_t i = 0; i < dense_one_.size(); ++i) dense_gradient_[i] += dense_one_[i];
  }
  return sum;
}

Status TrainerLoop::PushRound(std::uint64_t number, double learning_rate, const PulledRound& round,
                              bool with_gradients) {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kApply);
  const algo::TrainerShare& share = options_.share;
  ps::Push push{.lease = share.lease,
                .batch = number,
                .learning_rate = static_cast<float>(learning_rate),
                .last = share.leased() && number + 1 == share.Rounds(),
                .trainers = options_.trainers};
  if (with_gradients) {
    push.tables = round.rows.Gradients();
    push.dense = dense_gradient_;
  }
  return store_.Push(push, round.pulled.pushes);
}

Result<std::unique_ptr<sparse::SparseBatch>> TrainerLoop::TakeBatch() {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kData);
  return queue_->Next();
}

Result<StepOutcome> TrainerLoop::NextGeoStep() {
  const algo::TrainerShare& share = options_.share;
  StepOutcome outcome{.learning_rate =
                          algo::LearningRateAt(options_.schedule, share.RunStep(steps_))};
  sparse::StepLoss sum;
  const std::size_t batches = share.RangesOf(0).size();
  for (std::size_t b = 0; b < batches; ++b) {
    PACELINE_ASSIGN(auto batch, TakeBatch());
    outcome.samples += batch->samples;
    if (batch->samples == 0) continue;
    {
      const job::PhaseScope scope(clock_, phases_, job::Phase::kWait);
      PACELINE_TRY(geo_->Fetch(*batch));
    }
    queue_->Continue();
    const job::PhaseScope scope(clock_, phases_, job::Phase::kBackward);
    const auto rows = geo_->RowsOf(*batch);
    const sparse::StepLoss loss = model_.Compute(
        *batch, geo_->dense(), 1 / static_cast<float>(batch->samples), dense_gradient_, rows);
    AddTo(sum, loss);
    outcome.applied = outcome.applied && std::isfinite(loss.sum);
    if (std::isfinite(loss.sum)) {
      geo_->Apply(*batch, dense_gradient_, static_cast<float>(outcome.learning_rate));
    }
    queue_->Recycle(std::move(batch));
  }
  outcome.loss = MeanOf(sum);
  const std::uint64_t round = Round();
  ++steps_;
  if (steps_ == share.EndStep(round)) {
    const job::PhaseScope scope(clock_, phases_, job::Phase::kApply);
    PACELINE_TRY(geo_->Exchange(round, share.leased() && Done()));
  }
  outcome.steps = steps_;
  outcome.pushes = geo_->pushes();
  return outcome;
}

std::uint64_t TrainerLoop::VersionNow() const {
  if (options_.share.leased()) return 0;
  if (Done()) return options_.share.Rounds();
  return options_.mode == Mode::kSync ? Round() : 0;
}

}  // namespace paceline::fused

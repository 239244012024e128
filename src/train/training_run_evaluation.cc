// The part of TrainingRun that judges and saves the state.
#include <fmt/format.h>

#include "base/log.h"
#include "train/training_run.h"

namespace paceline::train {

namespace {

constexpr std::size_t kEvalBatch = 100;

// As long as it lives the model computes with the average, if there is one.
class AverageInUse {
 public:
  explicit AverageInUse(ParameterAverage* average) : average_(average) {
    if (average_ != nullptr) average_->Swap();
  }
  ~AverageInUse() {
    if (average_ != nullptr) average_->Swap();
  }
  AverageInUse(const AverageInUse&) = delete;
  AverageInUse& operator=(const AverageInUse&) = delete;

 private:
  ParameterAverage* average_;
};

}  // namespace

bool TrainingRun::GivesUp() const {
  return config_.patience > 0 && position_.best.since >= config_.patience;
}

Status TrainingRun::EvaluateNow() {
  PACELINE_TRY(AwaitParameters());
  const job::PhaseScope scope(environment_.clock, trainer_->phases(), job::Phase::kEvaluate);
  auto result = [&] {
    const AverageInUse average(trainer_->average());
    return Evaluate(trainer_->model(), *data_.held_out,
                    {.batch = kEvalBatch,
                     .stop = [&] { return Stopping(); },
                     .engine = environment_.engine,
                     .data_threads = static_cast<std::size_t>(config_.data_threads),
                     .tokenizer = data_.tokenizer.get()});
  }();
  if (!result.ok() && result.status().code() == Code::kAborted) return {};
  if (!result.ok()) return result.status().Wrap("evaluating");
  evaluation_ = *result;
  const Objective::Deciding deciding = trainer_->model().objective->Decides();
  const bool best =
      position_.best.Judge(position_.next_step, result->Of(deciding.metric), deciding.better);
  JsonObject record;
  record.Add("step", position_.next_step.value()).Add("samples", result->samples);
  for (const Metric& metric : result->metrics) record.Add(metric.name, metric.value);
  Record("evaluate", record.Add("best", best));
  job::RunSummary summary;
  SummarizeEvaluation(summary);
  Note(fmt::format("step {}: held-out {}", position_.next_step.value(), summary.HeldOutText()));
  if (GivesUp()) {
    Note(fmt::format("stopping early: {} evaluation(s) without a better {} than {:.4f} of step {}",
                     position_.best.since, deciding.metric, position_.best.value,
                     position_.best.step.value()));
  }
  return best && config_.keep_best && Leads() ? KeepBest() : Status();
}

// A run that stops does not evaluate any more. Where evaluations are counted, the one that was due
// then is made up for when it goes on.
Status TrainingRun::EvaluateWhatWasMissed() {
  const Step done = position_.next_step;
  const bool counted = config_.keep_best || config_.patience > 0;
  if (!counted || remote_ || done <= position_.best.judged || !Evaluates()) return {};
  RunPosition before = position_;  // without its last step
  before.next_step = Step(done.value() - 1);
  before.samples -= plan_.StepSamples(before.next_step);
  return Due(config_.eval_every, before) ? EvaluateNow() : Status();
}

// The checkpoint comes first: a mark never points at what is not there.
Status TrainingRun::KeepBest() {
  Status kept = SaveNow();
  if (kept.ok()) kept = store_->MarkBest(saved_as_);
  return kept.ok() ? kept : TolerateFailedSave(kept);
}

Status TrainingRun::TolerateFailedSave(const Status& failed) {
  if (config_.checkpoint_required) return failed;
  Warn(fmt::format("{}; training goes on", failed.message()));
  return {};
}

Status TrainingRun::SaveNow() {
  if (remote_) {
    parameters_->SaveWithNextPush();  // servers keep what they have
    return {};
  }
  if (saved_at_ == position_.next_step) return {};
  const job::PhaseScope scope(environment_.clock, trainer_->phases(), job::Phase::kCheckpoint);
  const auto generation = SaveCheckpoint(*store_, *trainer_, position_, identity_);
  const Status saved = generation.status();
  Record("checkpoint", JsonObject()
                           .Add("step", position_.next_step.value())
                           .Add("ok", saved.ok())
                           .Add("message", saved.message()));
  PACELINE_LOG(Info, "checkpoint at step {}: {}", position_.next_step.value(), saved.ToString());
  if (saved.ok()) {
    saved_at_ = position_.next_step;
    saved_as_ = *generation;
  } else {
    ++save_failures_;
  }
  return saved;
}

}  // namespace paceline::train

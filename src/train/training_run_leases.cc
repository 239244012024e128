// A trainer with servers that comes and goes: samples are lent to it.
#include <signal.h>

#include <algorithm>

#include <fmt/format.h>

#include "train/training_run.h"

namespace paceline::train {

Status TrainingRun::OpenLeases(const std::string& fingerprint) {
  PACELINE_ASSIGN(leases_, environment_.join_lender(fingerprint, plan_.total_samples));
  PACELINE_ASSIGN(walk_, job::LeaseWalk::Open(*parameters_,
                                              {.plan = plan_,
                                               .steps_per_round = share_.steps_per_round,
                                               .leases = leases_.get(),
                                               .stopped = [this] { return Stopping(); }},
                                              environment_.clock));
  position_.next_step = Step(walk_->steps());
  position_.samples = walk_->samples();
  return {};
}

// The oldest trainer keeps the records.
Status TrainingRun::LeadIfDue() {
  if (leads_ || !walk_->Leads()) return {};
  leads_ = true;
  PACELINE_TRY(OpenDirectory());
  TellAboutData();
  if (position_.next_step.value() > 0) {
    Note(fmt::format("going on at step {}", position_.next_step.value()));
  }
  return RecordStart();
}

Result<job::RunSummary> TrainingRun::RunLeases() {
  run_started_ = environment_.clock.Now();
  const Status trained = TrainLeases();
  // Whatever ended the training, what was pushed is good.
  if (trained.ok() || trained.code() == Code::kNotFinite) PACELINE_TRY(parameters_->Flush());
  if (trained.ok()) {
    walk_->Leave(remote_->rounds());
    PACELINE_TRY(LeadIfDue());  // the one before may have died at the very end
    // SIGTERM asks one trainer to leave the run, and its records, to the others.
    if (environment_.stop_signal() == SIGTERM) leads_ = false;
    if (leads_) PACELINE_TRY(remote_->Finish(false));
    if (leads_ && walk_->Done() && !Stopping()) PACELINE_TRY(EvaluateNow());
  }
  PACELINE_TRY(FinishTraining(trained));
  return Summarize();
}

Status TrainingRun::TrainLeases() {
  while (!Stopping()) {
    PACELINE_TRY(LeadIfDue());
    auto share = [&] {
      const job::PhaseScope scope(environment_.clock, trainer_->phases(), job::Phase::kWait);
      return walk_->Next();
    }();
    if (share.status().code() == Code::kAborted && Stopping()) return {};
    PACELINE_TRY(share.status());
    if (walk_->Done()) break;
    PACELINE_TRY(TrainLease(**share));
  }
  position_.next_step = Step(walk_->steps());
  position_.samples = walk_->samples();
  return {};
}

// Its batches are those that trainers of a fixed number would have, with the same augmentation,
// dropout and learning rate.
Status TrainingRun::TrainLease(const algo::TrainerShare& share) {
  PACELINE_ASSIGN(Step at, remote_->Begin(share, walk_->trainers()));
  const Step end(share.plan.Steps());
  const std::uint64_t first = share.begin / plan_.batch + at.value();
  data::LoaderOptions options = LoaderOf(Step(first / plan_.shards));
  options.first_shard = ShardId(0);
  options.end_shard = ShardId(plan_.shards);
  options.skip = first % plan_.shards;
  options.most = end.value() - at.value();
  PACELINE_ASSIGN(const auto loader, data::BatchLoader::Create(*data_.train, plan_, options));
  for (; at < end && !Stopping(); at = at.Next()) {
    PACELINE_TRY(LeadIfDue());
    const std::uint64_t number = share.begin / plan_.batch + at.value();
    const Step step(number / plan_.shards);
    PACELINE_ASSIGN(const bool done,
                    TrainStep({.step = step,
                               .samples = share.plan.StepSamples(at),
                               .learning_rate = algo::LearningRateAt(schedule_, step.value()),
                               .lent = ShardId(number % plan_.shards)},
                              *loader));
    if (!done) return {};
  }
  return at < end ? Status() : walk_->FinishLease();
}

}  // namespace paceline::train

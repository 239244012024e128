#include "fused/run_steps.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "fused/job_description.h"

namespace paceline::fused {

namespace {

// The coordinator's number is a lower bound: it need not be new.
constexpr std::chrono::milliseconds kBetweenReports(200);

}  // namespace

Result<std::unique_ptr<LeasedSteps>> LeasedSteps::Open(sparse::FusedModel& model,
                                                       const ps::JobSpec& spec, ps::Store& store,
                                                       const Options& options, const Clock& clock) {
  std::unique_ptr<LeasedSteps> steps(new LeasedSteps(model, spec, store, options, clock));
  PACELINE_ASSIGN(const ps::PullAnswer now, store.Pull({.touch = ps::Touch::kPeek, .rows = {}}));
  steps->pushes_ = now.pushes.front();
  return steps;
}

Result<bool> LeasedSteps::More() {
  while (!done_ && (!loop_ || loop_->Done())) {
    if (loop_) PACELINE_TRY(FinishLease());
    PACELINE_ASSIGN(const auto lease, AwaitLease());
    done_ = !lease.has_value();
    if (lease) PACELINE_TRY(OpenLease(*lease));
  }
  return !done_;
}

Result<std::optional<wire::LeaseGrant>> LeasedSteps::AwaitLease() {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kWait);
  return options_.leases->Next(options_.stopped);
}

Status LeasedSteps::OpenLease(const wire::LeaseGrant& lease) {
  lease_ = lease;
  reported_ = 0;
  TrainerLoop::Options options = options_.loop;
  options.trainers = options_.leases->trainers();
  options.share = TrainerShare::OfLease(options_.plan, lease.lease, {lease.begin, lease.count},
                                        options_.steps_per_round);
  PACELINE_ASSIGN(loop_, TrainerLoop::Open(model_, spec_, store_, options, clock_));
  loop_->phases() = phases_;
  PACELINE_LOG(Info, "lease {}: samples {} to {}, from step {} of {}", lease.lease, lease.begin,
               lease.begin + lease.count, loop_->steps(), options.share.plan.Steps());
  return {};
}

// What the servers have acknowledged survives them, so the range need not be lent again.
Status LeasedSteps::FinishLease() {
  {
    const job::PhaseScope scope(clock_, loop_->phases(), job::Phase::kApply);
    PACELINE_TRY(store_.Flush());
  }
  options_.leases->Advance(lease_.count);
  phases_ = loop_->phases();
  loop_.reset();
  return {};
}

Result<StepOutcome> LeasedSteps::Next() {
  PACELINE_ASSIGN(StepOutcome outcome, loop_->Next());
  const std::uint64_t own = options_.loop.mode == Mode::kGeo ? 0 : 1;  // this one
  pushes_ = std::max(pushes_, outcome.pushes + own);
  outcome.steps = steps();
  ReportProgress();
  return outcome;
}

void LeasedSteps::ReportProgress() {
  const Instant now = clock_.Now();
  if (now - reported_at_ < kBetweenReports) return;
  const std::uint64_t batches = store_.Acknowledged(lease_.lease);
  const std::uint64_t done = std::min(batches * RoundSamples(), lease_.count);
  // The end is reported when the lease is left.
  if (done <= std::max(reported_, lease_.done) || done == lease_.count) return;
  options_.leases->Advance(done);
  reported_ = done;
  reported_at_ = now;
}

void LeasedSteps::Close() {
  if (done_) return;
  if (loop_) {
    const std::uint64_t rounds = loop_->steps() / options_.steps_per_round;
    options_.leases->Advance(std::min(rounds * RoundSamples(), lease_.count));
  }
  options_.leases->Leave();
}

std::uint64_t LeasedSteps::samples() const {
  if (done_) return options_.plan.total_samples;
  return std::min(pushes_ * RoundSamples(), options_.plan.total_samples);
}

Result<std::unique_ptr<RunSteps>> OpenSteps(const job::TrainConfig& config,
                                            sparse::FusedModel& model, const algo::BatchPlan& plan,
                                            const TrainerContext& context,
                                            const std::function<bool()>& stopped,
                                            const Clock& clock) {
  PACELINE_ASSIGN(const Mode mode, ModeOf(config));
  PACELINE_ASSIGN(const auto schedule, ScheduleOf(config, plan.Steps()));
  TrainerLoop::Options options{.mode = mode,
                               .share = {},
                               .schedule = schedule,
                               .trainer = context.place.rank,
                               .trainers = context.place.world,
                               .staleness = config.staleness,
                               .prefetch = static_cast<std::size_t>(config.prefetch),
                               .pull_ahead = context.pull_ahead};
  const std::uint64_t steps_per_round = StepsPerRound(config, mode);
  if (context.elastic) {
    PACELINE_ASSIGN(auto steps, LeasedSteps::Open(model, context.spec, context.store,
                                                  {.plan = plan,
                                                   .loop = options,
                                                   .steps_per_round = steps_per_round,
                                                   .stopped = stopped,
                                                   .leases = context.leases},
                                                  clock));
    return std::unique_ptr<RunSteps>(std::move(steps));
  }
  options.share = {.plan = plan,
                   .rank = context.place.rank,
                   .world = context.place.world,
                   .steps_per_round = steps_per_round,
                   .lease = context.place.rank};
  PACELINE_ASSIGN(auto loop, TrainerLoop::Open(model, context.spec, context.store, options, clock));
  return std::unique_ptr<RunSteps>(std::make_unique<FixedSteps>(std::move(loop), options.share));
}

}  // namespace paceline::fused

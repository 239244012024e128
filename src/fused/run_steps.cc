#include "fused/run_steps.h"

#include <utility>

#include "fused/job_description.h"
#include "job/recipe.h"

namespace paceline::fused {

Result<std::unique_ptr<LeasedSteps>> LeasedSteps::Open(sparse::FusedModel& model,
                                                       const ps::JobSpec& spec, ps::Store& store,
                                                       const Options& options, const Clock& clock) {
  PACELINE_ASSIGN(const job::LeaseWalk walk, job::LeaseWalk::Open(store, options.walk, clock));
  return std::unique_ptr<LeasedSteps>(new LeasedSteps(model, spec, store, options, clock, walk));
}

Result<bool> LeasedSteps::More() {
  while (!walk_.Done() && (!loop_ || loop_->Done())) {
    if (loop_) PACELINE_TRY(FinishLease());
    PACELINE_ASSIGN(const auto share, AwaitLease());
    if (share) PACELINE_TRY(OpenLease(*share));
  }
  return !walk_.Done();
}

Result<std::optional<algo::TrainerShare>> LeasedSteps::AwaitLease() {
  const job::PhaseScope scope(clock_, phases_, job::Phase::kWait);
  return walk_.Next();
}

Status LeasedSteps::OpenLease(const algo::TrainerShare& share) {
  TrainerLoop::Options options = options_.loop;
  options.trainers = walk_.trainers();
  options.share = share;
  PACELINE_ASSIGN(loop_, TrainerLoop::Open(model_, spec_, store_, options, clock_));
  loop_->phases() = phases_;
  return {};
}

Status LeasedSteps::FinishLease() {
  {
    const job::PhaseScope scope(clock_, loop_->phases(), job::Phase::kApply);
    PACELINE_TRY(walk_.FinishLease());
  }
  phases_ = loop_->phases();
  loop_.reset();
  return {};
}

Result<StepOutcome> LeasedSteps::Next() {
  PACELINE_ASSIGN(StepOutcome outcome, loop_->Next());
  const std::uint64_t own = options_.loop.mode == Mode::kGeo ? 0 : 1;  // this one
  walk_.AfterPush(outcome.pushes + own);
  outcome.steps = steps();
  return outcome;
}

Result<std::unique_ptr<RunSteps>> OpenSteps(const job::TrainConfig& config,
                                            sparse::FusedModel& model, const algo::BatchPlan& plan,
                                            const TrainerContext& context,
                                            const std::function<bool()>& stopped,
                                            const Clock& clock) {
  PACELINE_ASSIGN(const Mode mode, ModeOf(config));
  PACELINE_ASSIGN(const auto schedule, job::ScheduleOf(config, plan));
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
                                                  {.walk = {.plan = plan,
                                                            .steps_per_round = steps_per_round,
                                                            .leases = context.leases,
                                                            .stopped = stopped},
                                                   .loop = options},
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

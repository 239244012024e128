#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "algo/batch_plan.h"
#include "base/clock.h"
#include "base/status.h"
#include "fused/trainer_loop.h"
#include "job/lease_taker.h"
#include "job/lease_walk.h"
#include "job/phases.h"
#include "job/train_config.h"
#include "ps/job_spec.h"
#include "ps/store.h"
#include "sparse/fused_model.h"

namespace paceline::fused {

// Which of how many trainers this is.
struct TrainerPlace {
  std::uint64_t rank = 0;
  std::uint64_t world = 1;
};

struct TrainerContext {
  TrainerPlace place;
  ps::Store& store;                        // of a job that was configured with `spec`
  const ps::JobSpec& spec;                 // of DescribeJob()
  std::function<Status()> save = nullptr;  // makes the state durable; none: servers do
  bool pull_ahead = false;                 // one round, where the mode allows it
  bool elastic = false;                    // trainers come and go, and samples are lent
  job::LeaseTaker* leases = nullptr;       // of such a run; none: it is complete but for its end
};

// The steps of one trainer, and how far the run is: with a share of its own, or with ranges that
// are lent to it. Thread-compatible.
class RunSteps {
 public:
  virtual ~RunSteps() = default;

  // Whether there is another step; may wait for samples. kAborted when the wait is called off.
  virtual Result<bool> More() = 0;
  // After More() said so. StepOutcome::steps are those of the run.
  virtual Result<StepOutcome> Next() = 0;
  // After the last step and after everything was flushed: tells whoever must know.
  virtual void Close() = 0;

  virtual std::uint64_t steps() const = 0;    // of the run, done so far
  virtual std::uint64_t samples() const = 0;  // likewise
  virtual bool Done() const = 0;              // the run is complete
  virtual std::uint64_t steps_per_push() const = 0;
  // As TrainerLoop::VersionNow().
  virtual std::uint64_t VersionNow() const = 0;
  // Whether this trainer keeps the run's records now.
  virtual bool Leads() = 0;
  virtual job::PhaseTimes& phases() = 0;
};

// One of a fixed number of trainers, of whom the first leads.
class FixedSteps final : public RunSteps {
 public:
  FixedSteps(std::unique_ptr<TrainerLoop> loop, const algo::TrainerShare& share)
      : loop_(std::move(loop)), share_(share) {}

  Result<bool> More() override { return !loop_->Done(); }
  Result<StepOutcome> Next() override { return loop_->Next(); }
  void Close() override {}
  std::uint64_t steps() const override { return loop_->steps(); }
  std::uint64_t samples() const override { return share_.SamplesAfter(loop_->steps()); }
  bool Done() const override { return loop_->Done(); }
  std::uint64_t steps_per_push() const override { return share_.steps_per_round; }
  std::uint64_t VersionNow() const override { return loop_->VersionNow(); }
  bool Leads() override { return share_.rank == 0; }
  job::PhaseTimes& phases() override { return loop_->phases(); }

 private:
  std::unique_ptr<TrainerLoop> loop_;
  algo::TrainerShare share_;
};

// A trainer of an elastic run: one lease after the other. Borrows everything it is made of.
class LeasedSteps final : public RunSteps {
 public:
  struct Options {
    job::LeaseWalkOptions walk;
    TrainerLoop::Options loop;  // but for the share
  };
  static Result<std::unique_ptr<LeasedSteps>> Open(sparse::FusedModel& model,
                                                   const ps::JobSpec& spec, ps::Store& store,
                                                   const Options& options, const Clock& clock);

  Result<bool> More() override;
  Result<StepOutcome> Next() override;
  void Close() override { walk_.Leave(loop_ ? loop_->steps() / steps_per_push() : 0); }
  std::uint64_t steps() const override { return walk_.steps(); }
  std::uint64_t samples() const override { return walk_.samples(); }
  bool Done() const override { return walk_.Done(); }
  std::uint64_t steps_per_push() const override { return options_.walk.steps_per_round; }
  std::uint64_t VersionNow() const override { return 0; }
  bool Leads() override { return walk_.Leads(); }
  job::PhaseTimes& phases() override { return loop_ ? loop_->phases() : phases_; }

 private:
  LeasedSteps(sparse::FusedModel& model, const ps::JobSpec& spec, ps::Store& store,
              const Options& options, const Clock& clock, const job::LeaseWalk& walk)
      : model_(model), spec_(spec), store_(store), options_(options), clock_(clock), walk_(walk) {}

  Result<std::optional<algo::TrainerShare>> AwaitLease();
  Status FinishLease();
  Status OpenLease(const algo::TrainerShare& share);

  sparse::FusedModel& model_;
  const ps::JobSpec& spec_;
  ps::Store& store_;
  const Options options_;
  const Clock& clock_;
  job::LeaseWalk walk_;
  job::PhaseTimes phases_;             // while there is no loop
  std::unique_ptr<TrainerLoop> loop_;  // of the newest lease; none: finished
};

// Of the trainer that `context` describes; a wait for samples is called off when `stopped` says so.
Result<std::unique_ptr<RunSteps>> OpenSteps(const job::TrainConfig& config,
                                            sparse::FusedModel& model, const algo::BatchPlan& plan,
                                            const TrainerContext& context,
                                            const std::function<bool()>& stopped,
                                            const Clock& clock);

}  // namespace paceline::fused

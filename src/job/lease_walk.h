#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "algo/batch_plan.h"
#include "algo/trainer_share.h"
#include "base/clock.h"
#include "base/status.h"
#include "job/lease_taker.h"
#include "ps/store.h"

namespace paceline::job {

struct LeaseWalkOptions {
  algo::BatchPlan plan;               // of the run
  std::uint64_t steps_per_round = 1;  // what one push covers
  LeaseTaker* leases = nullptr;       // none: the run is complete but for its end
  std::function<bool()> stopped;      // calls off a wait for samples
};

// A trainer's way through an elastic run with parameter servers: one lease after the other, what is
// reported of them, and how far the run is, which follows from the pushes that the servers have
// seen of all trainers. Borrows store, lender and clock. Thread-compatible.
class LeaseWalk {
 public:
  // Asks the servers where the run is.
  static Result<LeaseWalk> Open(ps::Store& store, const LeaseWalkOptions& options,
                                const Clock& clock);

  // Waits for the next range of samples; nothing when the run is complete. kAborted when the wait
  // was called off, kMismatch for a range that is not made of whole pushes.
  Result<std::optional<algo::TrainerShare>> Next();
  // So many pushes of all trainers were applied; a push was made. Now and then the coordinator is
  // told what is durable.
  void AfterPush(std::uint64_t pushes);
  // The whole range is pushed: waits until that is durable, and reports it.
  Status FinishLease();
  // After everything was flushed: this trainer goes, and has pushed so many rounds of its lease.
  // Nothing when the run is complete.
  void Leave(std::uint64_t rounds);

  bool Done() const { return done_; }  // the run is complete
  std::uint64_t steps() const;         // of the run, done so far by all trainers
  std::uint64_t samples() const;       // likewise
  std::uint64_t trainers() const { return options_.leases->trainers(); }  // of a run not complete
  // Whether this trainer keeps the run's records now.
  bool Leads() const { return options_.leases == nullptr || options_.leases->Leads(); }

 private:
  LeaseWalk(ps::Store& store, const LeaseWalkOptions& options, const Clock& clock,
            std::uint64_t pushes)
      : store_(&store),
        options_(options),
        clock_(&clock),
        done_(options.leases == nullptr),
        pushes_(pushes) {}
  std::uint64_t RoundSamples() const { return options_.plan.batch * options_.steps_per_round; }

  ps::Store* store_;
  LeaseWalkOptions options_;
  const Clock* clock_;
  bool done_;
  std::uint64_t pushes_;    // of the run, as far as is known
  wire::LeaseGrant lease_;  // the newest
  bool holds_ = false;      // it, not finished
  std::uint64_t reported_ = 0;
  Instant reported_at_{};
};

}  // namespace paceline::job

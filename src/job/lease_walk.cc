#include "job/lease_walk.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"

namespace paceline::job {

namespace {

// The coordinator's number is a lower bound: it need not be new.
constexpr std::chrono::milliseconds kBetweenReports(200);

}  // namespace

Result<LeaseWalk> LeaseWalk::Open(ps::Store& store, const LeaseWalkOptions& options,
                                  const Clock& clock) {
  PACELINE_ASSIGN(const ps::PullAnswer now, store.Pull({.touch = ps::Touch::kPeek, .rows = {}}));
  return LeaseWalk(store, options, clock, now.pushes.front());
}

Result<std::optional<algo::TrainerShare>> LeaseWalk::Next() {
  if (done_) return std::optional<algo::TrainerShare>();
  PACELINE_ASSIGN(const auto lease, options_.leases->Next(options_.stopped));
  done_ = !lease.has_value();
  if (done_) return std::optional<algo::TrainerShare>();
  lease_ = *lease;
  if (lease_.begin % RoundSamples() != 0) {
    return Status::Error(
        Code::kMismatch,
        fmt::format("lease {} begins at sample {}, but a push covers {} samples: --lease-samples "
                    "of the coordinator must be a multiple of that",
                    lease_.lease, lease_.begin, RoundSamples()));
  }
  holds_ = true;
  reported_ = 0;
  PACELINE_LOG(Info, "lease {}: samples {} to {}", lease_.lease, lease_.begin,
               lease_.begin + lease_.count);
  return std::optional(algo::TrainerShare::OfLease(
      options_.plan, lease_.lease, {lease_.begin, lease_.count}, options_.steps_per_round));
}

void LeaseWalk::AfterPush(std::uint64_t pushes) {
  pushes_ = std::max(pushes_, pushes);
  const Instant now = clock_->Now();
  if (now - reported_at_ < kBetweenReports) return;
  const std::uint64_t batches = store_->Acknowledged(lease_.lease);
  const std::uint64_t done = std::min(batches * RoundSamples(), lease_.count);
  // The end is reported when the lease is left.
  if (done <= std::max(reported_, lease_.done) || done == lease_.count) return;
  options_.leases->Advance(done);
  reported_ = done;
  reported_at_ = now;
}

// What the servers have acknowledged survives them, so the range need not be lent again.
Status LeaseWalk::FinishLease() {
  PACELINE_TRY(store_->Flush());
  options_.leases->Advance(lease_.count);
  holds_ = false;
  return {};
}

void LeaseWalk::Leave(std::uint64_t rounds) {
  if (done_) return;
  if (holds_) options_.leases->Advance(std::min(rounds * RoundSamples(), lease_.count));
  options_.leases->Leave();
}

std::uint64_t LeaseWalk::steps() const {
  return done_ ? options_.plan.Steps() : samples() / options_.plan.GlobalBatch();
}

std::uint64_t LeaseWalk::samples() const {
  if (done_) return options_.plan.total_samples;
  return std::min(pushes_ * RoundSamples(), options_.plan.total_samples);
}

}  // namespace paceline::job

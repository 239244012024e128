#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "wire/control.h"

namespace paceline::member {

// A worker's side of the membership: what it tells the coordinator, what it was told, and whether
// it may still commit. No clock, no socket. Thread-compatible.
//
// A worker that has not been heard for the dead time is replaced, so it must have stopped by then:
// it commits only while the newest heartbeat that was acknowledged was sent less than the dead time
// ago. When the coordinator's process has died, each refused attempt to reach it is as good: the
// next coordinator, which cannot have listened yet, gives everybody the dead time to come back. So
// training goes on without a coordinator, and not behind a partition.
class WorkerLogic {
 public:
  WorkerLogic(const wire::Member& self, std::uint64_t incarnation, std::uint64_t pid,
              const std::string& fingerprint);

  // Of the run, if they are lent.
  void SetSamples(std::uint64_t samples) { samples_ = samples; }

  // A connection was made: what to say first.
  wire::Register OnConnected(Instant now);
  void OnClosed() { connected_ = false; }
  // Nobody listened where the coordinator should be, at or after `tried`. Once the time has run
  // out this proves nothing: a coordinator may have come, given us up, and died.
  void OnRefused(Instant tried) {
    if (Trusted(tried)) proven_ = tried;
  }
  void OnControl(const wire::Control& message);

  wire::Heartbeat MakeHeartbeat(Instant now);
  // Nobody can have given us up yet: what we write is not a dead worker's.
  bool Trusted(Instant now) const { return proven_ && now - *proven_ < dead_; }
  bool MayCommit(Instant now) const { return !release_ && Trusted(now); }
  // On this connection nothing was answered for the dead time.
  bool Unheard(Instant now) const {
    return connected_ && !unanswered_.empty() && now - unanswered_.begin()->second >= dead_;
  }

  // What this worker does.
  void SetReady() { ready_ = true; }
  void SetLeaving() { leaving_ = true; }
  void SetFinished(const wire::Finished& finished) { finished_ = finished; }
  void Commit(Step next_step) { progress_ = {true, next_step}; }
  void SetAddress(const std::string& address) { self_.address = address; }
  void SetPhase(const std::string& phase, Instant now);
  void SetRss(std::uint64_t bytes) { rss_bytes_ = bytes; }
  // Gives up the current view.
  wire::Stopped Stop(std::uint64_t blamed, const std::string& why);
  // Takes the view that was assigned; nothing when there is none yet.
  std::optional<wire::Assignment> TakeView();

  // Asks for samples; TakeLease returns them when they were granted.
  wire::LeaseRequest WantLease();
  std::optional<wire::LeaseGrant> TakeLease();
  // So many samples of the lease that was taken last are applied.
  wire::LeaseProgress Advance(std::uint64_t done);

  // What it has to say again on a new connection, after Register.
  std::vector<wire::Control> Outstanding() const;

  MemberId member() const { return member_; }
  Generation generation() const { return generation_; }
  const wire::Progress& progress() const { return progress_; }
  bool connected() const { return connected_; }
  bool registered() const { return member_ != MemberId(0); }
  std::chrono::milliseconds heartbeat() const { return heartbeat_; }
  // Asked to end the current view: at once, or at the end of the step.
  bool pause_now() const { return pause_at_step_end() && !pause_->at_step_end; }
  bool pause_at_step_end() const {
    return pause_ && pause_->generation == generation_ && !stopped_;
  }
  std::string pause_why() const { return pause_ ? pause_->why : ""; }
  const std::optional<wire::Release>& release() const { return release_; }

 private:
  wire::Member self_;
  std::uint64_t incarnation_, pid_;
  std::string fingerprint_;
  std::uint64_t samples_ = 0;
  MemberId member_;
  Generation generation_;
  wire::Progress progress_;
  bool ready_ = false, stopped_ = false, leaving_ = false;
  std::optional<wire::Finished> finished_;

  bool connected_ = false;
  std::chrono::milliseconds heartbeat_{500}, dead_{5'000};
  std::uint64_t sequence_ = 0;
  std::map<std::uint64_t, Instant> unanswered_;  // heartbeats, by sequence: when they were sent
  Instant register_sent_{};
  std::optional<Instant> proven_;  // after this, no coordinator has given us up

  std::optional<wire::Pause> pause_;  // the newest; maybe of a view that is not taken yet
  std::optional<wire::Assignment> assignment_;
  std::optional<wire::Release> release_;
  bool wants_lease_ = false;
  std::optional<wire::LeaseGrant> granted_;            // not taken yet
  std::optional<wire::LeaseProgress> lease_progress_;  // of the newest that was taken
  std::string phase_;
  Instant phase_since_{};
  std::uint64_t rss_bytes_ = 0;
};

}  // namespace paceline::member

#include "member/worker_logic.h"

#include <utility>

namespace paceline::member {

WorkerLogic::WorkerLogic(const wire::Member& self, std::uint64_t incarnation, std::uint64_t pid,
                         const std::string& fingerprint)
    : self_(self), incarnation_(incarnation), pid_(pid), fingerprint_(fingerprint) {}

wire::Register WorkerLogic::OnConnected(Instant now) {
  connected_ = true;
  register_sent_ = now;
  unanswered_.clear();
  return {.member = member_,
          .incarnation = incarnation_,
          .self = self_,
          .pid = pid_,
          .fingerprint = fingerprint_,
          .generation = generation_,
          .ready = ready_,
          .stopped = stopped_,
          .progress = progress_,
          .samples = samples_};
}

void WorkerLogic::OnControl(const wire::Control& message) {
  if (const auto* registered = std::get_if<wire::Registered>(&message)) {
    member_ = registered->member;
    heartbeat_ = std::chrono::milliseconds(registered->heartbeat_milliseconds);
    dead_ = std::chrono::milliseconds(registered->dead_milliseconds);
    proven_ = register_sent_;
  } else if (const auto* ack = std::get_if<wire::HeartbeatAck>(&message)) {
    if (const auto sent = unanswered_.find(ack->sequence); sent != unanswered_.end()) {
      proven_ = sent->second;
      unanswered_.erase(unanswered_.begin(), std::next(sent));
    }
  } else if (const auto* pause = std::get_if<wire::Pause>(&message)) {
    const bool harder = pause_ && pause_->generation == pause->generation && !pause_->at_step_end;
    if (!harder) pause_ = *pause;
  } else if (const auto* assignment = std::get_if<wire::Assignment>(&message)) {
    if (assignment->generation > generation_) assignment_ = *assignment;
  } else if (const auto* release = std::get_if<wire::Release>(&message)) {
    release_ = *release;
  } else if (const auto* grant = std::get_if<wire::LeaseGrant>(&message)) {
    if (wants_lease_) granted_ = *grant;  // else one that was asked for twice
    wants_lease_ = false;
  }
}

wire::Heartbeat WorkerLogic::MakeHeartbeat(Instant now) {
  unanswered_[++sequence_] = now;
  return {.sequence = sequence_,
          .next_step = progress_.next_step,
          .phase = phase_,
          .phase_milliseconds = static_cast<std::uint64_t>(
              std::chrono::duration_cast<std::chrono::milliseconds>(now - phase_since_).count()),
          .rss_bytes = rss_bytes_};
}

void WorkerLogic::SetPhase(const std::string& phase, Instant now) {
  phase_ = phase;
  phase_since_ = now;
}

wire::Stopped WorkerLogic::Stop(std::uint64_t blamed, const std::string& why) {
  stopped_ = true;
  return {.generation = generation_,
          .progress = progress_,
          .address = self_.address,
          .blamed = blamed,
          .why = why};
}

std::optional<wire::Assignment> WorkerLogic::TakeView() {
  if (!assignment_) return std::nullopt;
  generation_ = assignment_->generation;
  stopped_ = false;
  return std::exchange(assignment_, std::nullopt);
}

wire::LeaseRequest WorkerLogic::WantLease() {
  wants_lease_ = true;
  return {};
}

std::optional<wire::LeaseGrant> WorkerLogic::TakeLease() {
  if (granted_) lease_progress_ = {granted_->lease, granted_->done};
  return std::exchange(granted_, std::nullopt);
}

wire::LeaseProgress WorkerLogic::Advance(std::uint64_t done) {
  if (!lease_progress_) lease_progress_.emplace();
  lease_progress_->done = done;
  return *lease_progress_;
}

std::vector<wire::Control> WorkerLogic::Outstanding() const {
  std::vector<wire::Control> again;
  if (lease_progress_) again.emplace_back(*lease_progress_);
  if (wants_lease_) again.emplace_back(wire::LeaseRequest{});
  if (finished_) {
    again.emplace_back(*finished_);
  } else if (leaving_) {
    again.emplace_back(wire::Leaving{});
  }
  return again;
}

}  // namespace paceline::member

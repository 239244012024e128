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
          .progress = progress_};
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

std::optional<wire::Control> WorkerLogic::Outstanding() const {
  if (finished_) return *finished_;
  if (leaving_) return wire::Leaving{};
  return std::nullopt;
}

}  // namespace paceline::member

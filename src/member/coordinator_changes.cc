// The part of CoordinatorLogic that replaces views, and what time brings.
#include <algorithm>

#include <fmt/format.h>

#include "member/coordinator_logic.h"

namespace paceline::member {

// ---- changing ---------------------------------------------------------------------------------

void CoordinatorLogic::StartChange(bool at_step_end, const std::string& why) {
  phase_ = RunPhase::kChanging;
  hard_change_ = !at_step_end;
  change_why_ = why;
  stopping_since_ = now_;
  if (leased()) return;  // nobody has to stop
  for (const CoordinatorState::Seat& seat : state_.view) {
    const auto found = people_.find(seat.member);
    if (found == people_.end() || found->second.stopped) continue;
    Send(found->second, wire::Pause{state_.generation, at_step_end, why});
  }
}

void CoordinatorLogic::ConsiderPolite() {
  if (phase_ != RunPhase::kRunning || finished_) return;
  std::size_t at_work = 0;
  for (const CoordinatorState::Seat& seat : state_.view) {
    const auto found = people_.find(seat.member);
    if (found == people_.end() || !found->second.connection) return;  // one thing at a time
    if (found->second.leaving) {
      return StartChange(/*at_step_end=*/true, fmt::format("{} leaves", WorkerName(seat.member)));
    }
    ++at_work;
  }
  if (at_work >= options_.max_workers) return;
  for (const auto& [id, person] : people_) {
    if (InView(id) || !person.ready || person.leaving || !person.connection) continue;
    return StartChange(/*at_step_end=*/true, fmt::format("{} joins", WorkerName(id)));
  }
}

void CoordinatorLogic::TryToForm() {
  const bool between = phase_ == RunPhase::kStarting || phase_ == RunPhase::kChanging ||
                       phase_ == RunPhase::kWaiting;
  if (!between || !AllStopped() || ReleaseLeavers()) return;
  const std::vector<MemberId> seats = Candidates();
  if (phase_ == RunPhase::kStarting) {
    const bool late = now_ - began_ >= options_.start_timeout;
    if (seats.size() < options_.start_workers && !late) return;
    change_why_ = "the run begins";
  }
  if (seats.size() >= options_.min_workers) return Form(seats);
  if (phase_ != RunPhase::kWaiting) {
    phase_ = RunPhase::kWaiting;
    waiting_since_ = now_;
    Tell({.type = "waiting",
          .why = change_why_,
          .numbers = {{"have", static_cast<double>(seats.size())},
                      {"need", static_cast<double>(options_.min_workers)}}});
  }
}

void CoordinatorLogic::Form(const std::vector<MemberId>& seats) {
  state_.generation = state_.generation.Next();
  state_.view.clear();
  view_base_ = Step(0);
  for (const MemberId id : seats) {
    Person& person = people_.at(id);
    person.stopped = leased();
    person.self.rank = Rank(state_.view.size());
    state_.view.push_back({id, person.incarnation, person.pid, person.self});
    if (person.progress.has_state) view_base_ = std::max(view_base_, person.progress.next_step);
  }
  phase_ = RunPhase::kRunning;
  furthest_at_ = now_;
  const wire::Assignment view = CurrentView();
  actions_.emplace_back(SaveState{state_});
  Tell({.type = "view",
        .why = change_why_,
        .numbers = {{"generation", static_cast<double>(state_.generation.value())},
                    {"step", static_cast<double>(view_base_.value())}},
        .seats = view.seats});
  for (const MemberId id : seats) Send(people_.at(id), view);
  ConsiderPolite();
  Lend();
}

wire::Assignment CoordinatorLogic::CurrentView() const {
  wire::Assignment view{
      .cluster = state_.cluster, .generation = state_.generation, .why = change_why_};
  for (const CoordinatorState::Seat& seat : state_.view) {
    const auto found = people_.find(seat.member);
    view.seats.push_back({seat.member, seat.pid, seat.at,
                          found == people_.end() ? wire::Progress{} : found->second.progress});
  }
  return view;
}

// ---- time -------------------------------------------------------------------------------------

Actions CoordinatorLogic::OnTick(Instant now) {
  now_ = now;
  if (phase_ == RunPhase::kDone) return Take();
  CheckSilence();
  if (phase_ == RunPhase::kStarting) TryToForm();
  if (phase_ == RunPhase::kWaiting && now - waiting_since_ >= options_.elastic_timeout) {
    End(Code::kBelowMinWorkers,
        fmt::format("{} of at least {} workers for {} s", Candidates().size(), options_.min_workers,
                    options_.elastic_timeout.count() / 1000));
  }
  if (phase_ == RunPhase::kChanging && now - stopping_since_ >= options_.stop_timeout) {
    CheckStopping();
  }
  CheckStall();
  return Take();
}

void CoordinatorLogic::CheckSilence() {
  std::vector<MemberId> dead;
  for (auto& [id, person] : people_) {
    const std::chrono::nanoseconds silent = now_ - person.heard;
    if (silent >= options_.dead) {
      dead.push_back(id);
    } else if (silent >= options_.suspect && !person.suspect) {
      person.suspect = true;
      Tell({.type = "suspect", .member = id, .numbers = {{"seconds", ToSeconds(silent)}}});
    }
  }
  for (const MemberId id : dead) {
    const Iterator who = people_.find(id);
    if (who == people_.end()) continue;
    Lose(who, fmt::format("silent for {:.1f} s", ToSeconds(now_ - who->second.heard)),
         Code::kFenced);
  }
}

// Somebody lives but does not stop: first ask harder, then go on without.
void CoordinatorLogic::CheckStopping() {
  if (!hard_change_) return StartChange(/*at_step_end=*/false, change_why_ + "; the step hangs");
  std::vector<MemberId> stuck;
  for (const CoordinatorState::Seat& seat : state_.view) {
    const auto found = people_.find(seat.member);
    if (found != people_.end() && !found->second.stopped) stuck.push_back(seat.member);
  }
  for (const MemberId id : stuck) {
    if (const Iterator who = people_.find(id); who != people_.end()) {
      Lose(who, fmt::format("did not stop within {} s", options_.stop_timeout.count() / 1000),
           Code::kFenced);
    }
  }
}

void CoordinatorLogic::CheckStall() {
  if (phase_ != RunPhase::kRunning || stall_told_ || now_ - furthest_at_ < options_.stall) return;
  stall_told_ = true;
  std::string text;
  for (const CoordinatorState::Seat& seat : state_.view) {
    const auto found = people_.find(seat.member);
    if (found == people_.end()) continue;
    const wire::Heartbeat& beat = found->second.beat;
    text += fmt::format("{}{} at step {} in {} for {:.1f} s", text.empty() ? "" : "; ",
                        WorkerName(seat.member), beat.next_step.value(),
                        beat.phase.empty() ? "start" : beat.phase,
                        static_cast<double>(beat.phase_milliseconds) / 1e3);
  }
  Tell({.type = "stall",
        .why = text,
        .numbers = {{"step", static_cast<double>(furthest_.value())},
                    {"seconds", ToSeconds(now_ - furthest_at_)}}});
}

void CoordinatorLogic::End(Code code, const std::string& why) {
  phase_ = RunPhase::kDone;
  const std::optional<MemberId> keeper =
      code == Code::kOk || leased() ? std::nullopt : MostAdvanced();
  for (const auto& [id, person] : people_) {
    Send(person, wire::Release{code, keeper == id, why});
  }
  Tell({.type = "done", .why = why, .numbers = {{"step", static_cast<double>(furthest_.value())}}});
  actions_.emplace_back(EndRun{code, why});
}

MembershipStatus CoordinatorLogic::StatusAt(Instant now) const {
  MembershipStatus status{.phase = phase_,
                          .generation = state_.generation,
                          .reason = change_why_,
                          .min = options_.min_workers,
                          .max = options_.max_workers};
  for (const auto& [id, person] : people_) {
    const auto seat = std::ranges::find(state_.view, id,
                                        [](const CoordinatorState::Seat& s) { return s.member; });
    const bool in_view = seat != state_.view.end();
    if (in_view && !person.leaving) ++status.have;
    status.members.push_back(
        {.member = id,
         .rank = in_view ? std::optional(seat->at.rank) : std::nullopt,
         .host = person.self.host,
         .pid = person.pid,
         .state = person.suspect                           ? "suspect"
                  : person.leaving                         ? "leaving"
                  : in_view && person.stopped && !leased() ? "stopped"
                  : in_view                                ? "running"
                  : person.ready                           ? "ready"
                                                           : "joining",
         .next_step = std::max(person.beat.next_step, person.progress.next_step),
         .phase = person.beat.phase,
         .phase_seconds = static_cast<double>(person.beat.phase_milliseconds) / 1e3,
         .heartbeat_age_seconds = ToSeconds(now - person.heard),
         .rss_bytes = person.beat.rss_bytes});
  }
  return status;
}

}  // namespace paceline::member

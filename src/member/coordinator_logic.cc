#include "member/coordinator_logic.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "member/rendezvous.h"

namespace paceline::member {

namespace {

// A worker that its peers failed to reach so often, while nobody made a step, has to go.
constexpr std::uint64_t kBlamedTooOften = 3;

std::string Name(MemberId id) { return fmt::format("worker {}", id.value()); }

}  // namespace

CoordinatorLogic::CoordinatorLogic(const MembershipOptions& options, CoordinatorState saved,
                                   Instant now)
    : options_(options), state_(std::move(saved)), now_(now), began_(now), furthest_at_(now) {
  if (state_.generation == Generation(0)) return;
  phase_ = RunPhase::kRunning;
  for (const CoordinatorState::Seat& seat : state_.view) {
    people_[seat.member] = {.self = seat.at,
                            .incarnation = seat.incarnation,
                            .pid = seat.pid,
                            .heard = now,
                            .ready = true};
  }
}

// ---- who is who -------------------------------------------------------------------------------

bool CoordinatorLogic::InView(MemberId id) const {
  return std::ranges::any_of(state_.view,
                             [&](const CoordinatorState::Seat& seat) { return seat.member == id; });
}

CoordinatorLogic::Iterator CoordinatorLogic::Find(ConnectionId connection) {
  return std::find_if(people_.begin(), people_.end(),
                      [&](const auto& entry) { return entry.second.connection == connection; });
}

bool CoordinatorLogic::AllStopped() const {
  return std::ranges::all_of(state_.view, [&](const CoordinatorState::Seat& seat) {
    const auto found = people_.find(seat.member);
    return found == people_.end() || found->second.stopped;
  });
}

bool CoordinatorLogic::AllFinished() const {
  return std::ranges::all_of(state_.view, [&](const CoordinatorState::Seat& seat) {
    const auto found = people_.find(seat.member);
    return found == people_.end() || found->second.finished;
  });
}

// Old members keep their order, so the first one stays first; new ones follow.
std::vector<MemberId> CoordinatorLogic::Candidates() const {
  std::vector<MemberId> ids;
  const auto add = [&](MemberId id, const Person& person) {
    if (person.ready && person.connection && !person.leaving && !person.finished &&
        ids.size() < options_.max_workers) {
      ids.push_back(id);
    }
  };
  for (const CoordinatorState::Seat& seat : state_.view) {
    if (const auto found = people_.find(seat.member); found != people_.end()) {
      add(found->first, found->second);
    }
  }
  for (const auto& [id, person] : people_) {
    if (!InView(id)) add(id, person);
  }
  return ids;
}

std::optional<MemberId> CoordinatorLogic::MostAdvanced() const {
  std::optional<MemberId> best;
  for (const auto& [id, person] : people_) {
    if (!person.connection || !person.progress.has_state) continue;
    if (!best || person.progress.next_step > people_.at(*best).progress.next_step) best = id;
  }
  return best;
}

void CoordinatorLogic::Send(const Person& person, wire::Control message) {
  if (person.connection) actions_.emplace_back(SendControl{*person.connection, std::move(message)});
}

// ---- coming -----------------------------------------------------------------------------------

Actions CoordinatorLogic::OnRegister(ConnectionId connection, const wire::Register& message,
                                     Instant now) {
  now_ = now;
  if (phase_ == RunPhase::kDone) {
    actions_.emplace_back(CloseConnection{connection, Code::kFenced, "the run is over"});
    return Take();
  }
  const auto known = std::find_if(people_.begin(), people_.end(), [&](const auto& entry) {
    return entry.second.incarnation == message.incarnation;
  });
  if (known != people_.end() && (message.member == known->first || message.member == MemberId(0))) {
    Return(known, connection, message);
  } else if (message.generation == Generation(0)) {
    Add(connection, message);  // new, or known to a coordinator that died before it had a view
  } else {
    actions_.emplace_back(
        CloseConnection{connection, Code::kFenced,
                        fmt::format("{} is not part of this run any more", Name(message.member))});
  }
  return Take();
}

void CoordinatorLogic::Add(ConnectionId connection, const wire::Register& message) {
  if (state_.fingerprint.empty()) state_.fingerprint = message.fingerprint;
  if (state_.fingerprint != message.fingerprint) {
    actions_.emplace_back(CloseConnection{
        connection, Code::kMismatch,
        fmt::format("the run / {} differ in {}", message.self.host,
                    FingerprintDifference(state_.fingerprint, message.fingerprint))});
    return;
  }
  state_.last_member = std::max(state_.last_member, message.member).Next();
  const MemberId id = state_.last_member;
  people_[id] = {.self = message.self,
                 .incarnation = message.incarnation,
                 .pid = message.pid,
                 .connection = connection,
                 .heard = now_,
                 .progress = message.progress,
                 .ready = message.ready};
  Tell({.type = "join",
        .member = id,
        .why = message.self.host,
        .numbers = {{"pid", static_cast<double>(message.pid)}}});
  Welcome(people_[id], id);
  if (message.ready) OnReady();
}

// A worker whose connection, or whose coordinator, was gone for a while.
void CoordinatorLogic::Return(Iterator who, ConnectionId connection,
                              const wire::Register& message) {
  Person& person = who->second;
  if (person.connection) {
    actions_.emplace_back(CloseConnection{*person.connection, Code::kOk, "connected anew"});
  }
  person.connection = connection;
  person.heard = now_;
  person.self.address = message.self.address;
  person.progress = message.progress;
  person.ready = message.ready;
  const bool in_view = InView(who->first);
  person.stopped = in_view && (message.stopped || message.generation != state_.generation);
  Welcome(person, who->first);
  if (!in_view) return message.ready ? OnReady() : void();
  if (person.stopped && phase_ == RunPhase::kRunning) {
    StartChange(/*at_step_end=*/false, fmt::format("{} has stopped", Name(who->first)));
  } else if (!person.stopped && phase_ == RunPhase::kChanging) {
    Send(person, wire::Pause{state_.generation, !hard_change_, change_why_});
  }
  TryToForm();
}

void CoordinatorLogic::Welcome(const Person& person, MemberId id) {
  Send(person,
       wire::Registered{id, state_.cluster, static_cast<std::uint64_t>(options_.heartbeat.count()),
                        static_cast<std::uint64_t>(options_.dead.count())});
}

void CoordinatorLogic::OnReady() {
  ConsiderPolite();
  TryToForm();
}

// ---- talking ----------------------------------------------------------------------------------

Actions CoordinatorLogic::OnMessage(ConnectionId connection, const wire::Control& message,
                                    Instant now) {
  now_ = now;
  const Iterator who = Find(connection);
  if (who == people_.end() || phase_ == RunPhase::kDone) return Take();
  Person& person = who->second;
  person.heard = now;
  person.suspect = false;
  if (const auto* beat = std::get_if<wire::Heartbeat>(&message)) {
    person.beat = *beat;
    Send(person, wire::HeartbeatAck{beat->sequence});
    if (beat->next_step > furthest_) {
      furthest_ = beat->next_step;
      furthest_at_ = now;
      stall_told_ = false;
    }
  } else if (std::holds_alternative<wire::Ready>(message)) {
    person.ready = true;
    Tell({.type = "ready", .member = who->first});
    OnReady();
  } else if (const auto* stopped = std::get_if<wire::Stopped>(&message)) {
    OnStopped(who, *stopped);
  } else if (std::holds_alternative<wire::Leaving>(message)) {
    person.leaving = true;
    Tell({.type = "leave", .member = who->first});
    if (!InView(who->first)) {
      ReleaseLeavers();
    } else {
      ConsiderPolite();
      TryToForm();
    }
  } else if (const auto* finished = std::get_if<wire::Finished>(&message)) {
    OnFinished(who, *finished);
  } else {
    Lose(who, fmt::format("sent a {} message", wire::ControlName(message)), Code::kProtocol);
  }
  return Take();
}

void CoordinatorLogic::OnStopped(Iterator who, const wire::Stopped& message) {
  if (message.generation != state_.generation || !InView(who->first)) return;
  Person& person = who->second;
  person.stopped = true;
  person.progress = message.progress;
  person.self.address = message.address;
  if (finished_ && message.progress.next_step == finished_->next_step) {
    person.finished = true;
    return EndIfFinished();
  }
  if (message.progress.next_step > view_base_) {
    for (auto& [id, other] : people_) other.blamed = 0;
  }
  if (phase_ == RunPhase::kRunning || (!message.why.empty() && !hard_change_)) {
    StartChange(/*at_step_end=*/false, fmt::format("{}: {}", Name(who->first), message.why));
  }
  if (message.blamed < state_.view.size()) Blame(state_.view[message.blamed].member);
  TryToForm();
}

void CoordinatorLogic::Blame(MemberId id) {
  const Iterator who = people_.find(id);
  if (who == people_.end() || ++who->second.blamed < kBlamedTooOften * (state_.view.size() - 1)) {
    return;
  }
  Lose(who, "the others cannot reach it", Code::kFenced);
}

void CoordinatorLogic::OnFinished(Iterator who, const wire::Finished& message) {
  who->second.finished = true;
  who->second.progress = {true, message.next_step};
  finished_ = message;
  EndIfFinished();
}

void CoordinatorLogic::EndIfFinished() {
  if (finished_ && AllFinished()) {
    End(Code::kOk, finished_->interrupted ? "stopped by the user" : "complete");
  }
}

// ---- going ------------------------------------------------------------------------------------

Actions CoordinatorLogic::OnClosed(ConnectionId connection, Instant now) {
  now_ = now;
  const Iterator who = Find(connection);
  if (who == people_.end() || phase_ == RunPhase::kDone) return Take();
  if (who->second.saving) {
    people_.erase(who);
    TryToForm();
  } else {
    Lose(who, "its connection was closed", Code::kOk);
  }
  return Take();
}

// `told`: what an evicted worker hears; kOk for one that is gone already.
void CoordinatorLogic::Lose(Iterator who, const std::string& why, Code told) {
  const MemberId id = who->first;
  Tell({.type = told == Code::kOk ? "lost" : "evict", .member = id, .why = why});
  if (told != Code::kOk && who->second.connection) {
    Send(who->second, wire::Release{told, false, why});
    actions_.emplace_back(CloseConnection{*who->second.connection, told, why});
  }
  people_.erase(who);
  if (!InView(id)) return;
  if (finished_) return EndIfFinished();
  if (phase_ == RunPhase::kRunning || (phase_ == RunPhase::kChanging && !hard_change_)) {
    StartChange(/*at_step_end=*/false, fmt::format("{}: {}", Name(id), why));
  }
  TryToForm();
}

// Those who asked to go may, once nobody works with them. The last one that has a state saves it
// first, and true means that the others have to wait for that.
bool CoordinatorLogic::ReleaseLeavers() {
  const bool others_have_state = std::ranges::any_of(people_, [](const auto& entry) {
    return !entry.second.leaving && entry.second.connection && entry.second.progress.has_state;
  });
  const std::optional<MemberId> keeper = others_have_state ? std::nullopt : MostAdvanced();
  bool saving = false;
  for (auto it = people_.begin(); it != people_.end();) {
    Person& person = it->second;
    if (!person.leaving || (InView(it->first) && !person.stopped)) {
      ++it;
      continue;
    }
    const bool saves = keeper == it->first;
    if (!person.saving) Send(person, wire::Release{Code::kOk, saves, "left"});
    person.saving = saves;
    saving = saving || saves;
    it = saves ? std::next(it) : people_.erase(it);
  }
  return saving;
}

// ---- changing ---------------------------------------------------------------------------------

void CoordinatorLogic::StartChange(bool at_step_end, const std::string& why) {
  phase_ = RunPhase::kChanging;
  hard_change_ = !at_step_end;
  change_why_ = why;
  stopping_since_ = now_;
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
      return StartChange(/*at_step_end=*/true, fmt::format("{} leaves", Name(seat.member)));
    }
    ++at_work;
  }
  if (at_work >= options_.max_workers) return;
  for (const auto& [id, person] : people_) {
    if (InView(id) || !person.ready || person.leaving || !person.connection) continue;
    return StartChange(/*at_step_end=*/true, fmt::format("{} joins", Name(id)));
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
  wire::Assignment view{
      .cluster = state_.cluster, .generation = state_.generation, .why = change_why_};
  view_base_ = Step(0);
  for (const MemberId id : seats) {
    Person& person = people_.at(id);
    person.stopped = false;
    person.self.rank = Rank(state_.view.size());
    state_.view.push_back({id, person.incarnation, person.pid, person.self});
    view.seats.push_back({id, person.pid, person.self, person.progress});
    if (person.progress.has_state) view_base_ = std::max(view_base_, person.progress.next_step);
  }
  phase_ = RunPhase::kRunning;
  furthest_at_ = now_;
  actions_.emplace_back(SaveState{state_});
  Tell({.type = "view",
        .why = change_why_,
        .numbers = {{"generation", static_cast<double>(state_.generation.value())},
                    {"step", static_cast<double>(view_base_.value())}},
        .seats = view.seats});
  for (const MemberId id : seats) Send(people_.at(id), view);
  ConsiderPolite();
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
                        Name(seat.member), beat.next_step.value(),
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
  const std::optional<MemberId> keeper = code == Code::kOk ? std::nullopt : MostAdvanced();
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
         .state = person.suspect              ? "suspect"
                  : person.leaving            ? "leaving"
                  : in_view && person.stopped ? "stopped"
                  : in_view                   ? "running"
                  : person.ready              ? "ready"
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

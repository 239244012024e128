#include "member/coordinator_logic.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fingerprint.h"

namespace paceline::member {

namespace {

// A worker that its peers failed to reach so often, while nobody made a step, has to go.
constexpr std::uint64_t kBlamedTooOften = 3;

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
                            .ready = true,
                            .stopped = leased()};
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
    actions_.emplace_back(CloseConnection{
        connection, Code::kFenced,
        fmt::format("{} is not part of this run any more", WorkerName(message.member))});
  }
  return Take();
}

void CoordinatorLogic::Add(ConnectionId connection, const wire::Register& message) {
  if (state_.fingerprint.empty()) state_.fingerprint = message.fingerprint;
  if (const std::string wrong = WrongWith(message); !wrong.empty()) {
    actions_.emplace_back(CloseConnection{connection, Code::kMismatch, wrong});
    return;
  }
  if (leased() && !state_.leases.plan().enabled()) {
    state_.leases = LeaseLedger({.total = message.samples, .size = options_.lease_samples});
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

std::string CoordinatorLogic::WrongWith(const wire::Register& message) const {
  if (state_.fingerprint != message.fingerprint) {
    return fmt::format("the run / {} differ in {}", message.self.host,
                       FingerprintDifference(state_.fingerprint, message.fingerprint));
  }
  const LeasePlan& plan = state_.leases.plan();
  if (!leased() || (plan.enabled() && message.samples == plan.total)) return "";
  if (!plan.enabled() && message.samples > 0) return "";
  return fmt::format("the run lends {} samples, {} wants to train on {}", plan.total,
                     message.self.host, message.samples);
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
  if (leased()) {
    person.stopped = true;
    return Send(person, CurrentView());
  }
  if (person.stopped && phase_ == RunPhase::kRunning) {
    StartChange(/*at_step_end=*/false, fmt::format("{} has stopped", WorkerName(who->first)));
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
  } else if (leased() && std::holds_alternative<wire::LeaseRequest>(message)) {
    person.wants_lease = true;
    Lend();
  } else if (const auto* progress = std::get_if<wire::LeaseProgress>(&message);
             progress && leased()) {
    OnLeaseProgress(who, *progress);
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
    StartChange(/*at_step_end=*/false, fmt::format("{}: {}", WorkerName(who->first), message.why));
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
  GiveBack(id);
  if (!InView(id)) return;
  if (finished_) return EndIfFinished();
  if (phase_ == RunPhase::kRunning || (phase_ == RunPhase::kChanging && !hard_change_)) {
    StartChange(/*at_step_end=*/false, fmt::format("{}: {}", WorkerName(id), why));
  }
  TryToForm();
}

// Those who asked to go may, once nobody works with them. The last one that has a state saves it
// first, and true means that the others have to wait for that.
bool CoordinatorLogic::ReleaseLeavers() {
  const bool others_have_state = std::ranges::any_of(people_, [](const auto& entry) {
    return !entry.second.leaving && entry.second.connection && entry.second.progress.has_state;
  });
  const std::optional<MemberId> keeper =
      others_have_state || leased() ? std::nullopt : MostAdvanced();
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
    GiveBack(it->first);
    it = saves ? std::next(it) : people_.erase(it);
  }
  return saving;
}

}  // namespace paceline::member

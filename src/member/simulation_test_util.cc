#include "member/simulation_test_util.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::member {

using std::chrono::milliseconds;

namespace {
constexpr std::uint64_t kCheckpointEvery = 10;
constexpr Instant kEndOfTime = std::chrono::hours(1);
}  // namespace

Simulation::Simulation(const SimulationOptions& options)
    : options_(options),
      rules_{.min_workers = options.min_workers,
             .max_workers = options.max_workers,
             .start_workers = options.max_workers,
             .start_timeout = milliseconds(10'000),
             .heartbeat = milliseconds(200),
             .suspect = milliseconds(800),
             .dead = milliseconds(2'000),
             .elastic_timeout = milliseconds(3'600'000),
             .stop_timeout = milliseconds(10'000)},
      random_(options.seed, Purpose::kTest, 4, 0) {
  saved_.cluster = 7;
}

// ---- clock and network ------------------------------------------------------------------------

void Simulation::After(Instant delay, std::function<void()> what) {
  events_.push({now_ + delay, sequence_++, std::move(what)});
}

Instant Simulation::Delay(double low_ms, double high_ms) {
  const double ms = low_ms + (high_ms - low_ms) * random_.Uniform();
  return Instant(static_cast<std::int64_t>(ms * 1e6));
}

// Runs on a worker: not while it is paused, never after its death, and not before what was sent
// earlier.
void Simulation::ToWorker(std::uint64_t id, Instant delay, std::function<void(Worker&)> what) {
  After(delay, [this, id, what = std::move(what)] {
    Worker& worker = workers_.at(id);
    if (!worker.alive) return;
    if (worker.paused_until <= now_) return what(worker);
    worker.held.emplace_back([this, id, what] { what(workers_.at(id)); });
  });
}

void Simulation::Log(const std::string& what) {
  log_.push_back(fmt::format("{:.3f} {}", ToSeconds(now_), what));
  if (log_.size() > 4000) log_.erase(log_.begin(), log_.begin() + 2000);
}

void Simulation::Fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = fmt::format("seed {}: {:.3f} s: {}\n  {}", options_.seed, ToSeconds(now_), what,
                         fmt::join(log_, "\n  "));
}

// ---- coordinator ------------------------------------------------------------------------------

void Simulation::StartCoordinator() {
  ++coordinator_epoch_;
  coordinator_ = std::make_unique<CoordinatorLogic>(rules_, saved_, now_);
  Log("coordinator starts");
  Tick();
}

void Simulation::Tick() {
  if (coordinator_ == nullptr || end_) return;
  Do(coordinator_->OnTick(now_));
  After(milliseconds(100), [this, epoch = coordinator_epoch_] {
    if (epoch == coordinator_epoch_) Tick();
  });
}

void Simulation::CrashCoordinator() {
  if (coordinator_ == nullptr) return;
  Log("coordinator dies");
  coordinator_.reset();
  const auto connections = std::exchange(connections_, {});
  for (const auto& [connection, owner] : connections) {
    const std::uint64_t id = owner.first;
    const Instant cut = std::max(workers_.at(id).cut_until - now_, Instant(0));
    ToWorker(id, cut + Delay(0.1, 5), [this, id, c = connection](Worker&) { Closed(id, c); });
  }
}

void Simulation::Do(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* send = std::get_if<SendControl>(&action)) {
      const auto found = connections_.find(send->to);
      if (found == connections_.end()) continue;
      const std::uint64_t id = found->second.first;
      Instant at = std::max(now_ + Delay(0.1, 10), workers_.at(id).cut_until + Delay(0.1, 5));
      at = std::max(at, last_delivery_[id] + Instant(1));
      last_delivery_[id] = at;
      ToWorker(id, at - now_, [this, id, c = send->to, message = send->message](Worker& worker) {
        if (worker.connection == c) Hear(id, message);
      });
    } else if (const auto* close = std::get_if<CloseConnection>(&action)) {
      const auto found = connections_.find(close->connection);
      if (found == connections_.end()) continue;
      const std::uint64_t id = found->second.first;
      connections_.erase(found);
      const Instant at = std::max(
          {now_ + Delay(0.1, 10), workers_.at(id).cut_until, last_delivery_[id] + Instant(1)});
      const bool refused = close->code != Code::kOk;
      ToWorker(id, at - now_, [this, id, c = close->connection, refused](Worker& worker) {
        if (worker.connection != c) return;
        if (refused) return CrashWorker(id);  // exits, told that it is not wanted
        Closed(id, c);
      });
    } else if (const auto* save = std::get_if<SaveState>(&action)) {
      if (save->state.generation.value() <= last_generation_) Fail("a generation was given twice");
      last_generation_ = save->state.generation.value();
      saved_ = save->state;
    } else if (const auto* note = std::get_if<Note>(&action)) {
      Log(fmt::format("coordinator: {} {} {}", note->type, note->member ? note->member->value() : 0,
                      note->why));
    } else if (const auto* end = std::get_if<EndRun>(&action)) {
      end_ = *end;
    }
  }
}

// ---- workers ----------------------------------------------------------------------------------

std::uint64_t Simulation::StartWorker() {
  const std::uint64_t id = next_worker_++;
  Worker& worker = workers_[id];
  worker.logic = std::make_unique<WorkerLogic>(
      wire::Member{Rank(0), "host", std::to_string(id), "machine"}, 1000 + id, id, "a=1");
  ToWorker(id, Delay(1, 300), [this, id](Worker&) { Connect(id); });
  ToWorker(id, Delay(300, 900), [this, id](Worker& self) {
    self.logic->SetReady();
    Say(id, wire::Ready{});
  });
  return id;
}

void Simulation::CrashWorker(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  if (!worker.alive) return;
  Log(fmt::format("worker {} dies", id));
  ++crashes_;
  if (worker.view && worker.running) {
    ToPeers(id, {.kind = PeerMessage::kClosed,
                 .generation = worker.view->generation.value(),
                 .from = worker.rank,
                 .blamed = worker.rank});
  }
  worker.alive = false;
  const ConnectionId connection = worker.connection;
  const Instant cut = std::max(worker.cut_until - now_, Instant(0));
  After(cut + Delay(0.1, 5), [this, connection] {
    if (connections_.erase(connection) > 0 && coordinator_) {
      Do(coordinator_->OnClosed(connection, now_));
    }
  });
}

void Simulation::Connect(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  if (worker.connection != 0 || worker.done) return;
  const auto again = [this, id](Worker&) { Connect(id); };
  if (coordinator_ == nullptr || worker.cut_until > now_) {
    if (worker.cut_until <= now_) worker.logic->OnRefused(now_);
    return ToWorker(id, milliseconds(50), again);
  }
  worker.connection = next_connection_++;
  connections_[worker.connection] = {id, coordinator_epoch_};
  const wire::Register first = worker.logic->OnConnected(now_);
  After(Delay(0.1, 10), [this, id, c = worker.connection, first] {
    last_said_[id] = now_;
    if (connections_.contains(c) && coordinator_) Do(coordinator_->OnRegister(c, first, now_));
  });
  last_said_[id] = now_ + milliseconds(10);
  for (const wire::Control& outstanding : worker.logic->Outstanding()) Say(id, outstanding);
  Beat(id);
}

void Simulation::Say(std::uint64_t id, const wire::Control& message) {
  Worker& worker = workers_.at(id);
  const ConnectionId c = worker.connection;
  if (c == 0) return;
  Instant at = std::max(
      {now_ + Delay(0.1, 10), worker.cut_until + Delay(0.1, 5), last_said_[id] + Instant(1)});
  last_said_[id] = at;
  After(at - now_, [this, c, message] {
    if (connections_.contains(c) && coordinator_) Do(coordinator_->OnMessage(c, message, now_));
  });
}

void Simulation::Beat(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  const ConnectionId c = worker.connection;
  if (c == 0) return;
  Say(id, worker.logic->MakeHeartbeat(now_));
  ToWorker(id, rules_.heartbeat, [this, id, c](Worker& self) {
    if (self.connection == c) Beat(id);
  });
}

void Simulation::Closed(std::uint64_t id, ConnectionId connection) {
  Worker& worker = workers_.at(id);
  if (worker.connection != connection) return;
  worker.connection = 0;
  worker.logic->OnClosed();
  Connect(id);
}

void Simulation::Hear(std::uint64_t id, const wire::Control& message) {
  Worker& worker = workers_.at(id);
  worker.logic->OnControl(message);
  if (worker.logic->release()) {
    const wire::Release release = *worker.logic->release();
    if (release.save && worker.has_model && worker.logic->Trusted(now_)) checkpoint_ = worker.model;
    Log(fmt::format("worker {} is released: {}", id, release.why));
    worker.done = true;
    worker.running = false;
    return CrashWorker(id);
  }
  if (worker.logic->pause_now() && worker.view) {
    return StopView(id, wire::Failure::kNobody, worker.logic->pause_why());
  }
  if (!worker.view) TakeView(id);
}

void Simulation::TakeView(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  worker.view = worker.logic->TakeView();
  if (!worker.view) return;
  const auto& seats = worker.view->seats;
  worker.rank = static_cast<std::uint64_t>(
      std::ranges::find(seats, worker.logic->member(),
                        [](const wire::Assignment::Seat& seat) { return seat.member; }) -
      seats.begin());
  if (worker.rank == seats.size()) return Fail("a view without the worker it was sent to");
  worker.formed = {worker.rank};
  worker.running = true;
  worker.contributed = worker.waiting_for_state = false;
  worker.contributions.clear();
  if (worker.logic->pause_now()) {
    return StopView(id, wire::Failure::kNobody, worker.logic->pause_why());
  }
  ToPeers(id, {.kind = PeerMessage::kHello,
               .generation = worker.view->generation.value(),
               .from = worker.rank});
  if (seats.size() == 1) Enter(id);
}

// Everybody is there: agree on the state.
void Simulation::Enter(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  const StateSource source = ChooseStateSource(*worker.view);
  if (source.root.value() == worker.rank) {
    if (source.from_disk) worker.model = checkpoint_;
    worker.has_model = true;
    if (source.transfer) {
      ToPeers(id, {.kind = PeerMessage::kState,
                   .generation = worker.view->generation.value(),
                   .from = worker.rank,
                   .model = worker.model});
    }
  } else if (source.transfer) {
    worker.waiting_for_state = true;
    return;
  }
  WriteViewRecord(worker);
  BeginStep(id);
}

void Simulation::BeginStep(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  worker.logic->Commit(Step(worker.model.size()));
  worker.contributed = false;
  ToWorker(id, Delay(2, 40),
           [this, id, g = worker.view->generation, step = worker.model.size()](Worker& self) {
             if (!self.view || self.view->generation != g || self.model.size() != step) return;
             self.contributed = true;
             if (step == options_.steps && self.rank == 0)
               checkpoint_ = self.model;  // before the barrier
             const bool step_end = self.logic->pause_at_step_end();
             self.contributions[step][self.rank] = step_end;
             ToPeers(id, {.kind = PeerMessage::kContribution,
                          .generation = g.value(),
                          .step = step,
                          .from = self.rank,
                          .step_end = step_end});
             TryCommit(id);
           });
}

void Simulation::TryCommit(std::uint64_t id) {
  Worker& worker = workers_.at(id);
  const std::uint64_t step = worker.model.size();
  if (!worker.view || !worker.contributed || worker.waiting_for_state ||
      worker.contributions[step].size() < worker.view->seats.size()) {
    return;
  }
  if (!worker.logic->MayCommit(now_)) {
    return ToWorker(id, milliseconds(20), [this, id, g = worker.view->generation](Worker& self) {
      if (self.view && self.view->generation == g) TryCommit(id);
    });
  }
  const std::uint64_t generation = worker.view->generation.value();
  const bool step_end = std::ranges::any_of(worker.contributions[step],
                                            [](const auto& entry) { return entry.second; });
  if (step == options_.steps) {  // the barrier at the end
    worker.done = true;
    worker.view.reset();
    const wire::Finished finished{Step(step), false};
    worker.logic->SetFinished(finished);
    return Say(id, finished);
  }
  if (generation < committed_generation_) {
    return Fail(fmt::format("worker {} commits step {} in generation {} after one in {}", id, step,
                            generation, committed_generation_));
  }
  committed_generation_ = generation;
  worker.model.push_back({step, generation});
  worker.logic->Commit(Step(step + 1));
  if (worker.rank == 0) {
    records_.push_back({false, generation, step + 1, generation});
    if ((step + 1) % kCheckpointEvery == 0) checkpoint_ = worker.model;
  }
  if (step_end) return StopView(id, wire::Failure::kNobody, "");
  BeginStep(id);
}

void Simulation::StopView(std::uint64_t id, std::uint64_t blamed, const std::string& why) {
  Worker& worker = workers_.at(id);
  if (!worker.view) return;
  if (!why.empty()) {
    ToPeers(id, {.kind = PeerMessage::kClosed,
                 .generation = worker.view->generation.value(),
                 .from = worker.rank,
                 .blamed = blamed});
  }
  worker.view.reset();
  worker.running = false;
  Log(fmt::format("worker {} stops at {}: {}", id, worker.model.size(), why));
  Say(id, worker.logic->Stop(blamed, why));
  TakeView(id);
}

void Simulation::ToPeers(std::uint64_t id, const PeerMessage& message) {
  const Worker& worker = workers_.at(id);
  for (const wire::Assignment::Seat& seat : worker.view->seats) {
    const std::uint64_t to = std::stoull(seat.at.address);
    if (to == id) continue;
    const Instant healed = std::max(worker.cut_until, workers_.at(to).cut_until);
    const Instant at = std::max(now_ + Delay(0.1, 15), healed + Delay(0.1, 5));
    ToWorker(to, at - now_, [this, to, message](Worker&) { OnPeer(to, message); });
  }
}

void Simulation::OnPeer(std::uint64_t id, const PeerMessage& message) {
  Worker& worker = workers_.at(id);
  if (!worker.view || message.generation > worker.view->generation.value()) {
    // Callers wait until this worker has opened its door for that view.
    const bool later = message.generation > worker.logic->generation().value();
    if (later && !worker.done) {
      ToWorker(id, milliseconds(5), [this, id, message](Worker&) { OnPeer(id, message); });
    }
    return;
  }
  if (message.generation < worker.view->generation.value()) return;  // fenced
  switch (message.kind) {
    case PeerMessage::kHello:
      worker.formed.insert(message.from);
      if (worker.formed.size() == worker.view->seats.size()) Enter(id);
      break;
    case PeerMessage::kState:
      worker.model = message.model;
      worker.has_model = true;
      if (worker.waiting_for_state) {
        worker.waiting_for_state = false;
        WriteViewRecord(worker);
        BeginStep(id);
      } else {  // overtook the last hello
        ToWorker(id, milliseconds(5), [this, id, message](Worker&) { OnPeer(id, message); });
      }
      break;
    case PeerMessage::kContribution:
      worker.contributions[message.step][message.from] = message.step_end;
      TryCommit(id);
      break;
    case PeerMessage::kClosed: StopView(id, message.blamed, "a peer is gone"); break;
  }
}

// ---- records ----------------------------------------------------------------------------------

void Simulation::WriteViewRecord(Worker& worker) {
  if (worker.rank != 0) return;
  records_.push_back({true, worker.view->generation.value(), worker.model.size(),
                      worker.model.empty() ? 0 : worker.model.back().generation});
}

// The history that counts, from the records alone.
Simulation::Model Simulation::Audit() const {
  Model model;
  std::uint64_t generation = 0;
  for (const Record& record : records_) {
    if (record.generation < generation) continue;  // somebody who did not know that he was dead
    if (record.view) {
      generation = record.generation;
      if (record.step < model.size()) model.resize(record.step);
      // Committed, but who kept the records died before it wrote that down.
      if (record.step == model.size() + 1) model.push_back({model.size(), record.committed_in});
    } else if (record.step == model.size() + 1) {
      model.push_back({record.step - 1, record.committed_in});
    }
  }
  return model;
}

// ---- faults -----------------------------------------------------------------------------------

void Simulation::InjectFault() {
  std::vector<std::uint64_t> alive;
  for (const auto& [id, worker] : workers_) {
    if (worker.alive && !worker.done) alive.push_back(id);
  }
  const std::uint32_t kind = random_.Below(options_.coordinator_faults ? 7 : 6);
  if (kind == 6) {
    CrashCoordinator();
    return After(Delay(10, 6'000), [this] {
      if (coordinator_ == nullptr) StartCoordinator();
    });
  }
  if (kind == 0 || alive.empty()) {
    StartWorker();
    return;
  }
  const std::uint64_t id = alive[random_.Below(static_cast<std::uint32_t>(alive.size()))];
  Worker& worker = workers_.at(id);
  if (kind == 1) {
    Log(fmt::format("worker {} wants to leave", id));
    worker.logic->SetLeaving();
    Say(id, wire::Leaving{});
  } else if (kind == 2) {
    worker.paused_until = now_ + Delay(50, 6'000);
    Log(fmt::format("worker {} pauses until {:.3f}", id, ToSeconds(worker.paused_until)));
    After(worker.paused_until - now_, [this, id] {
      Worker& self = workers_.at(id);
      for (auto& held : std::exchange(self.held, {})) {
        if (self.alive) held();
      }
    });
  } else if (kind == 3) {
    worker.cut_until = now_ + Delay(50, 6'000);
    Log(fmt::format("worker {} is cut off until {:.3f}", id, ToSeconds(worker.cut_until)));
  } else {
    CrashWorker(id);
    if (Chance(0.7)) StartWorker();
  }
}

void Simulation::Heal() {
  healed_ = true;
  Log("no more faults");
  if (coordinator_ == nullptr) StartCoordinator();
  for (std::uint64_t i = 0; i < options_.max_workers; ++i) StartWorker();
}

std::string Simulation::Run() {
  StartCoordinator();
  for (std::uint64_t i = 0; i < options_.max_workers; ++i) StartWorker();
  Instant at = milliseconds(500);
  for (int i = 0; i < options_.faults; ++i) {
    at += Delay(0, 1'500);
    After(at, [this] {
      if (!end_) InjectFault();
    });
  }
  After(at + milliseconds(9'000), [this] {
    if (!end_) Heal();
  });
  while (!events_.empty() && failure_.empty() && !end_ && now_ < kEndOfTime) {
    Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.what();
  }
  if (!failure_.empty()) return failure_;
  if (!end_) Fail("the training did not end after the faults");
  if (end_ && end_->code != Code::kOk) Fail("ended badly: " + end_->why);
  const Model counted = Audit();
  if (failure_.empty() && counted != checkpoint_) {
    for (const Record& record : records_) {
      Log(fmt::format("record: {} generation {} step {}", record.view ? "view" : "step",
                      record.generation, record.step));
    }
    Fail("the records do not tell the final model");
  }
  if (failure_.empty() && counted.size() != options_.steps) Fail("steps are missing");
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (counted[i].step != i) Fail("a step is not where it belongs");
  }
  for (const Record& record : records_) repeated_ += record.view ? 0 : 1;
  repeated_ -= std::min<std::uint64_t>(repeated_, counted.size());
  return failure_;
}

}  // namespace paceline::member

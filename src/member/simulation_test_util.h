#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "member/coordinator_logic.h"
#include "member/worker_logic.h"

namespace paceline::member {

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::uint64_t steps = 40;
  std::uint64_t min_workers = 1, max_workers = 3;
  int faults = 12;
  bool coordinator_faults = true;
};

// A run of an elastic job on a simulated clock and network: the real decision logic of coordinator
// and workers, and a model of a training step in which every member of a view sends its
// contribution to every other. Processes crash, pause, are cut off and come back as the seed says;
// the same seed gives the same run. Finds out whether what must never happen happens, and whether
// the training ends once the faults have.
class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);

  // Empty: everything held. Else what went wrong, with the time and the last events.
  std::string Run();

  std::uint64_t generations() const { return last_generation_; }
  std::uint64_t repeated_steps() const { return repeated_; }
  std::uint64_t crashes() const { return crashes_; }

 private:
  // A committed step of somebody's model.
  struct Commit {
    std::uint64_t step = 0, generation = 0;
    friend bool operator==(const Commit&, const Commit&) = default;
  };
  using Model = std::vector<Commit>;
  // The run's file of records.
  struct Record {
    bool view = false;
    std::uint64_t generation = 0;  // of the writer
    std::uint64_t step = 0;        // steps done; of a view: its base
    std::uint64_t committed_in = 0;
  };
  struct PeerMessage {
    enum Kind { kHello, kState, kContribution, kClosed } kind = kHello;
    std::uint64_t generation = 0, step = 0, from = 0, blamed = wire::Failure::kNobody;
    bool step_end = false;
    Model model;
  };
  struct Worker {
    std::unique_ptr<WorkerLogic> logic;
    bool alive = true;
    Instant paused_until{}, cut_until{};
    ConnectionId connection = 0;              // 0: none
    std::vector<std::function<void()>> held;  // while paused
    Model model;
    bool has_model = false;
    std::optional<wire::Assignment> view;
    std::uint64_t rank = 0;
    std::set<std::uint64_t> formed;  // members that said hello
    bool running = false, waiting_for_state = false, contributed = false, done = false;
    std::map<std::uint64_t, std::map<std::uint64_t, bool>> contributions;  // step -> from -> flag
  };

  void After(Instant delay, std::function<void()> what);
  void ToWorker(std::uint64_t id, Instant delay, std::function<void(Worker&)> what);
  Instant Delay(double low_ms, double high_ms);
  bool Chance(double p) { return random_.Uniform() < p; }

  void StartCoordinator();
  void CrashCoordinator();
  void Do(const Actions& actions);
  void Tick();

  std::uint64_t StartWorker();
  void CrashWorker(std::uint64_t id);
  void Connect(std::uint64_t id);
  void Beat(std::uint64_t id);
  void Say(std::uint64_t id, const wire::Control& message);
  void Hear(std::uint64_t id, const wire::Control& message);
  void Closed(std::uint64_t id, ConnectionId connection);
  void TakeView(std::uint64_t id);
  void Enter(std::uint64_t id);
  void BeginStep(std::uint64_t id);
  void TryCommit(std::uint64_t id);
  void StopView(std::uint64_t id, std::uint64_t blamed, const std::string& why);
  void ToPeers(std::uint64_t id, const PeerMessage& message);
  void OnPeer(std::uint64_t id, const PeerMessage& message);

  void WriteViewRecord(Worker& worker);
  Model Audit() const;
  void InjectFault();
  void Heal();
  void Fail(const std::string& what);
  void Log(const std::string& what);

  SimulationOptions options_;
  MembershipOptions rules_;
  CounterRng random_;
  Instant now_{};
  std::uint64_t sequence_ = 0;
  struct Event {
    Instant at{};
    std::uint64_t sequence = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(at, sequence) > std::pair(other.at, other.sequence);
    }
  };
  std::priority_queue<Event> events_;

  std::unique_ptr<CoordinatorLogic> coordinator_;
  std::uint64_t coordinator_epoch_ = 0;
  CoordinatorState saved_;
  std::map<ConnectionId, std::pair<std::uint64_t, std::uint64_t>> connections_;  // worker, epoch
  ConnectionId next_connection_ = 1;

  std::map<std::uint64_t, Worker> workers_;
  std::map<std::uint64_t, Instant>
      last_delivery_;                           // to a worker, so that messages keep their order
  std::map<std::uint64_t, Instant> last_said_;  // by a worker, to the coordinator
  std::uint64_t next_worker_ = 1;
  std::vector<Record> records_;
  Model checkpoint_;
  std::uint64_t last_generation_ = 0, committed_generation_ = 0, repeated_ = 0, crashes_ = 0;
  bool healed_ = false;
  std::optional<EndRun> end_;
  std::string failure_;
  std::vector<std::string> log_;
};

}  // namespace paceline::member

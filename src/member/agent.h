#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "member/worker_logic.h"
#include "net/connection.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/secret.h"
#include "wire/control.h"

namespace paceline::member {

struct AgentOptions {
  net::Endpoint coordinator;
  net::Secret secret = net::Secret::Open();
  wire::Member self;  // address: where it waits for its first view
  std::string fingerprint;
  std::uint64_t samples = 0;  // of the run, if they are lent
  std::chrono::steady_clock::time_point join_deadline;
};

// What a worker is told next.
struct Directive {
  std::optional<wire::Assignment> view;   // work in this view
  std::optional<wire::LeaseGrant> lease;  // or on these samples
  std::optional<wire::Release> release;   // or go
};

// A worker's connection to the coordinator: registers, sends heartbeats, connects anew when the
// coordinator was away. Thread-safe; one thread of its own.
class Agent {
 public:
  // Returns when the coordinator has accepted this worker. kMismatch, kUnauthenticated, kFenced
  // when it refuses, kTimeout when it cannot be reached.
  static Result<std::unique_ptr<Agent>> Join(net::Loop& loop, const Clock& clock,
                                             const AgentOptions& options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  MemberId member() const;

  // Warmed up: may be part of a view.
  void SetReady();
  // Waits for the first or the next view. A release with kUnavailable when the coordinator stays
  // away for longer than `patience`, with kAborted when `interrupted` says so.
  Directive AwaitView(std::chrono::milliseconds patience, const std::function<bool()>& interrupted);
  // Gives up the current view; the worker now listens at `address`.
  void Stop(const std::string& address, std::uint64_t blamed, const std::string& why);

  // Called (on the agent's thread) when the current view must end at once; once for each view.
  void WhenPaused(std::function<void(const std::string& why)> on_pause);
  // The view should end after this step, if all agree.
  bool WantsStepEnd() const;
  // Waits until this worker may commit (at once, nearly always). kFenced when it never may again,
  // kAborted when the view has to end.
  Status AwaitMayCommit();
  void Commit(Step next_step);
  // False when others may have given this worker up: it must not write files any more.
  bool Trusted() const;
  void SetPhase(const char* phase);

  // For runs whose workers do not step together. The newest view, if there is one that was not
  // taken yet.
  std::optional<wire::Assignment> TakeView();
  // Waits for samples to compute. Nothing when there are none any more: the run is complete, or
  // this worker asked to leave and may. kAborted when `interrupted` says so, kUnavailable when the
  // coordinator stays away, else why this worker has to go.
  Result<std::optional<wire::LeaseGrant>> AwaitLease(std::chrono::milliseconds patience,
                                                     const std::function<bool()>& interrupted);
  // So many samples of that lease, from its first, are applied.
  void Advance(std::uint64_t done);

  // Asks to go; a Directive with a release follows.
  void Leave();
  // The training is complete: waits until the coordinator lets go, or is gone.
  void Finish(const wire::Finished& finished);

  // For tests of partitions: nothing is sent or received for a while.
  void CutOff(std::chrono::milliseconds duration);

 private:
  Agent(net::Loop& loop, const Clock& clock, const AgentOptions& options,
        std::uint64_t incarnation);

  Directive Await(const std::function<bool(Directive&)>& told, std::chrono::milliseconds patience,
                  const std::function<bool()>& interrupted);
  void Run(const std::stop_token& stop);
  Status Connect(const std::stop_token& stop);
  void Converse(const std::stop_token& stop);
  Result<std::unique_ptr<net::Connection>> OpenConnection(const std::stop_token& stop) const;
  Status ReceiveAll(net::Connection& connection, const std::stop_token& stop);
  bool AnswersElsewhere(const std::stop_token& stop);
  void Handle(const wire::Control& message);
  void Refused(const Status& why);
  void Send(const wire::Control& message) PACELINE_REQUIRES(mutex_);
  std::chrono::milliseconds Heartbeat();

  net::Loop& loop_;
  const Clock& clock_;
  AgentOptions options_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  WorkerLogic logic_ PACELINE_GUARDED_BY(mutex_);
  std::unique_ptr<net::Connection> connection_ PACELINE_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> on_pause_ PACELINE_GUARDED_BY(mutex_);
  Status refused_ PACELINE_GUARDED_BY(mutex_);  // for good
  std::jthread thread_;                         // last: starts when everything else is ready
};

}  // namespace paceline::member

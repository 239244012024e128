#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "algo/shard_layout.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "base/status.h"
#include "collective/engine.h"
#include "job/group.h"
#include "member/agent.h"
#include "net/loop.h"
#include "wire/control.h"

namespace paceline::job {

struct ElasticOptions {
  std::string coordinator;   // "host:port"
  std::uint64_t shards = 1;  // of the run; each view spreads them over its members
  std::function<std::size_t(const algo::ShardLayout&)> arena_bytes;
  GroupOptions group;                           // what all views have in common
  std::chrono::milliseconds patience{600'000};  // with a coordinator that stays away
};

// A worker's place in a run whose members come and go: one group after the other.
// Thread-compatible; used by the thread that trains.
class ElasticGroup {
 public:
  // Registers; the worker is not part of a view yet. Errors as member::Agent::Join.
  static Result<std::unique_ptr<ElasticGroup>> Join(const ElasticOptions& options,
                                                    const Clock& clock);
  ~ElasticGroup();
  ElasticGroup(const ElasticGroup&) = delete;
  ElasticGroup& operator=(const ElasticGroup&) = delete;

  member::Agent& agent() { return *agent_; }

  // Waits until this worker is part of a connected group (engine() works then), or is told to go.
  Result<member::Directive> Next(const std::function<bool()>& interrupted);
  // Ends the current view on this side. An ok status means that all agreed to end it here.
  Status GiveUp(const Status& why);

  collective::Engine& engine() { return group_->engine(); }
  const std::string& description() const { return group_->description(); }
  const wire::Assignment& view() const { return view_; }
  Rank rank() const { return rank_; }

 private:
  explicit ElasticGroup(const ElasticOptions& options);
  Status Listen();
  Status Enter(const wire::Assignment& view);

  ElasticOptions options_;
  net::Endpoint coordinator_;
  net::Loop loop_;
  std::unique_ptr<net::Acceptor> acceptor_;  // for the next view
  std::unique_ptr<member::Agent> agent_;
  wire::Assignment view_;
  Rank rank_;
  std::stop_source stop_;  // of the current view
  std::unique_ptr<Group> group_;
};

// A member of a view as the records show it.
JsonObject SeatRecord(const wire::Assignment::Seat& seat, const algo::ShardLayout& layout);

// The rank that a status blames ("rank 2 (host, ...) ..."); Failure::kNobody when it does not say.
std::uint64_t BlamedRank(const Status& status);

}  // namespace paceline::job

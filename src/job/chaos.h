#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::job {

enum class ChaosKind { kKill, kStop, kCut, kLeave, kJoin };

// One fault that is injected when the run has done `step` steps.
struct ChaosEvent {
  ChaosKind kind = ChaosKind::kKill;
  bool coordinator = false;  // the victim; else worker (or server) number `worker`
  bool server = false;
  std::uint64_t worker = 0;
  std::uint64_t step = 0;
  std::chrono::milliseconds duration{0};  // of kStop and kCut

  std::string Describe() const;  // "kill worker 1 at step 40"
  friend bool operator==(const ChaosEvent&, const ChaosEvent&) = default;
};

// "kill=worker:1@step40,stop=worker:2@step60:6s,cut=worker:0@step80:500ms,leave=worker:1@step90,
// join=@step100,kill=coordinator@step110", or "random=SEED:COUNT": so many faults, at steps and
// for workers that the seed decides. In order of steps. kInvalidArgument names the part.
Result<std::vector<ChaosEvent>> ParseChaos(const std::string& text, std::uint64_t workers,
                                           std::uint64_t steps);

// The same for trainers and parameter servers, which can be killed and stopped:
// "kill=server:1@step40,stop=trainer:0@step60:500ms"; "random=SEED:COUNT" hits both. In an elastic
// run also "leave=trainer:1@step50,join=@step60,kill=coordinator@step70".
struct ServerChaosTargets {
  std::uint64_t trainers = 1;
  std::uint64_t servers = 1;
  std::uint64_t steps = 0;
  bool elastic = false;
};
Result<std::vector<ChaosEvent>> ParseServerChaos(const std::string& text,
                                                 const ServerChaosTargets& targets);

}  // namespace paceline::job

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "job/train_config.h"
#include "member/membership.h"
#include "net/endpoint.h"
#include "net/secret.h"

namespace paceline::job {

struct CoordinatorRunOptions {
  std::string run;    // directory for its records and, by default, its state
  std::string bind;   // "host:port"; empty: where it was before, or loopback and any port
  std::string store;  // empty: a file in the run directory
  net::Secret secret = net::Secret::Open();
  member::MembershipOptions membership;
  std::uint64_t shards = 1;  // of the run, for the records
  bool new_workers = false;  // those of the last view are known to be gone
  std::function<bool()> stopped;
};

// The rules of an elastic run, from its configuration.
member::MembershipOptions ElasticRules(const TrainConfig& config);

// Coordinates a run until it is over: keeps members.jsonl, status.json and coordinator.json in the
// run directory. OK when the training is complete; else why not (kBelowMinWorkers, kAborted when
// stopped, kAlreadyRunning when somebody else coordinates the run, ...).
Status RunCoordinator(const CoordinatorRunOptions& options, const Clock& clock);

// Where the coordinator of a run listens, from coordinator.json. kNotFound when there is none.
struct CoordinatorAddress {
  net::Endpoint endpoint;
  std::int64_t pid = 0;
};
Result<CoordinatorAddress> ReadCoordinatorAddress(const std::string& run);

}  // namespace paceline::job

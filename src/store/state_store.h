#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "disk/file_system.h"

namespace paceline::store {

// The whole state of a coordinator fits into this; etcd's own limit for a request is 1.5 MiB.
inline constexpr std::size_t kMaxStateBytes = std::size_t{1} << 20;

// Keeps the newest state of one coordinator, for its successor. Whoever has the object is the one
// owner; the destructor gives that up. Thread-compatible. Keeps no history, does not know what
// the state means, and retries nothing: after kDisk or kUnavailable the caller saves again.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // The newest saved state; nothing when none was ever saved. After a Save that failed it is the
  // state of that Save or the one before, whichever the next owner would find now.
  virtual Result<std::optional<std::string>> Load() = 0;

  // Durable when it returns OK. kInvalidArgument beyond kMaxStateBytes; kFenced when somebody else
  // may be the owner by now: nothing was written, and nothing will be through this object.
  virtual Status Save(std::string_view state) = 0;

  // For people: "file runs/x/coordinator.log", "etcd 127.0.0.1:2379 /paceline/ID".
  virtual std::string Describe() const = 0;
};

struct StateStoreOptions {
  std::string id;     // cluster or run: letters, digits, '.', '_' and '-'; part of etcd's keys
  std::string owner;  // who we are, for the one who comes second: "pid 12 host a"

  // file:
  disk::FileSystem* file_system = nullptr;           // null: the real one; else outlives the store
  std::size_t compact_bytes = std::size_t{4} << 20;  // a log beyond this is written anew; <= 64 MiB

  // etcd:
  std::chrono::seconds lease_ttl{10};               // so long a successor waits for a dead owner
  std::chrono::milliseconds request_timeout{2000};  // one request to one endpoint; keep it below
                                                    // a third of the lease
  std::stop_token stop;  // ends the waiting for a dead owner with kAborted
};

// `where` is "file:PATH" or "etcd://host:port[,host:port...]" (endpoints of one cluster, tried in
// order). Waits for a former owner in etcd that has died, at most for the rest of its lease and a
// little. kAlreadyRunning names the owner that lives; kBadCheckpoint file and offset of damage
// that no crash explains; kUnavailable the endpoints that did not answer.
Result<std::unique_ptr<StateStore>> OpenStateStore(const std::string& where,
                                                   const StateStoreOptions& options);

}  // namespace paceline::store

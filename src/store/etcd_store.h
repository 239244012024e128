#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/endpoint.h"
#include "store/etcd_client.h"
#include "store/state_store.h"

namespace paceline::store {

// The keys of one cluster or run.
struct EtcdKeys {
  explicit EtcdKeys(const std::string& id)
      : prefix("/paceline/" + id), owner(prefix + "/owner"), state(prefix + "/state") {}
  std::string prefix;
  std::string owner;  // text of the owner, bound to its lease
  std::string state;  // bound to nothing
};

// Whether a lease was certainly renewed between two looks at it, `elapsed` apart. etcd says what
// remains in whole seconds, so a renewal may go unseen for a second, and one of a lease that is no
// longer than a second always does.
bool WasRenewed(std::chrono::seconds first_remaining, std::chrono::nanoseconds elapsed,
                std::chrono::seconds remaining);

// The state in etcd, under a key that only the holder of the owner key can change: every Save is a
// transaction that compares who owns. A thread renews the lease. `options` must be valid
// (OpenStateStore checks them). The destructor revokes the lease, so that a successor need not
// wait; it is the one destructor that waits for the network, at most for two requests. etcd keeps
// every version that was saved until it is compacted: run it with --auto-compaction-retention.
Result<std::unique_ptr<StateStore>> OpenEtcdStore(std::vector<net::Endpoint> endpoints,
                                                  const StateStoreOptions& options);

}  // namespace paceline::store

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "net/endpoint.h"
#include "store/etcd_gateway.h"

namespace paceline::store {

// A key's value and etcd's counters of it.
struct EtcdValue {
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
  std::int64_t lease = 0;  // 0: bound to none
};

struct EtcdLease {
  std::chrono::seconds remaining{0};  // rounded down; negative: there is no such lease any more
  std::chrono::seconds granted{0};
};

// The few calls of etcd's version 3 interface that an owner with a lease needs. Every call may be
// repeated. Thread-safe. Fails like EtcdGateway, and with kProtocol when an answer makes no sense.
class EtcdClient {
 public:
  EtcdClient(std::vector<net::Endpoint> endpoints, std::chrono::milliseconds timeout)
      : gateway_(std::move(endpoints), timeout) {}

  Result<std::int64_t> GrantLease(std::chrono::seconds ttl);
  // False: the lease has ended.
  Result<bool> KeepAlive(std::int64_t lease);
  Result<EtcdLease> TimeToLive(std::int64_t lease);
  // Ends the lease and removes the keys bound to it; success when it had ended.
  Status Revoke(std::int64_t lease);

  Result<std::optional<EtcdValue>> Get(const std::string& key);

  // What is at `key` afterwards: this value bound to this lease, or what was there before.
  struct PutIfAbsentRequest {
    std::string key;
    std::string value;
    std::int64_t lease = 0;
  };
  Result<EtcdValue> PutIfAbsent(const PutIfAbsentRequest& request);

  // Puts `value` if the owner and the last change of the key are these; else says what is there.
  struct GuardedPutRequest {
    std::string owner_key;
    std::int64_t owner_create_revision = 0;
    std::string key;
    std::int64_t mod_revision = 0;  // 0: the key is absent
  };
  struct GuardedPutResult {
    bool done = false;
    std::int64_t revision = 0;       // of the put, if done
    std::optional<EtcdValue> owner;  // if not done
    std::optional<EtcdValue> current;
  };
  Result<GuardedPutResult> GuardedPut(const GuardedPutRequest& request, std::string_view value);

  std::string Describe() const { return gateway_.Describe(); }

 private:
  EtcdGateway gateway_;
};

}  // namespace paceline::store

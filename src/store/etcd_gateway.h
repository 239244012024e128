#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "net/endpoint.h"

namespace paceline::store {

// HTTP requests to the JSON gateway of an etcd cluster. Blocks its caller. Thread-safe. Does not
// know what it carries; speaks neither TLS nor etcd's own authentication. A host name is looked up
// without a timeout of its own.
class EtcdGateway {
 public:
  // `timeout` bounds each of connecting, sending and waiting for bytes, at each endpoint.
  EtcdGateway(std::vector<net::Endpoint> endpoints, std::chrono::milliseconds timeout)
      : endpoints_(std::move(endpoints)), timeout_(timeout) {}

  // The body of the first answer, beginning with the endpoint that answered last time. An endpoint
  // that fails may have carried the request out, so it must be one that can be repeated.
  // kUnavailable: none answered, or it said that it cannot now; kNotFound: what the request names
  // is not there; kUnauthenticated: the cluster wants to know who we are; kInternal: anything else.
  Result<std::string> Post(const std::string& path, const std::string& body);

  std::string Describe() const;  // "127.0.0.1:2379,127.0.0.1:2479"

 private:
  const std::vector<net::Endpoint> endpoints_;
  const std::chrono::milliseconds timeout_;
  std::atomic<std::size_t> preferred_{0};
};

}  // namespace paceline::store

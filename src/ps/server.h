#pragma once

#include <memory>

#include "base/status.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/secret.h"
#include "ps/server_core.h"

namespace paceline::ps {

struct ServerOptions {
  net::Endpoint bind;
  net::Secret secret = net::Secret::Open();
  std::uint32_t index = 0;
};

// Lets trainers reach a ServerCore: one thread for each connection, which reads a request, has the
// core do it, and answers. A trainer that sends faster than the core works is held up by its own
// connection. Thread-safe.
class Server {
 public:
  // `loop` and `core` outlive the server.
  static Result<std::unique_ptr<Server>> Start(net::Loop& loop, ServerCore& core,
                                               const ServerOptions& options);
  ~Server();  // closes every connection; what was not acknowledged will be sent again
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  net::Endpoint endpoint() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::ps

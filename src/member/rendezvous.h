#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "net/acceptor.h"
#include "net/loop.h"
#include "net/secret.h"
#include "wire/messages.h"

namespace paceline::member {

struct RendezvousOptions {
  net::Endpoint bind;
  net::Secret secret = net::Secret::Open();
  std::uint64_t world = 1;
  std::chrono::milliseconds timeout{60'000};  // from the first rank that comes
};

// Where the ranks of a job meet for the first time: waits for all of them, checks that they agree
// on what they are about to do, and tells each where the others are. It lives in the launcher, or
// in rank 0 when somebody else launches. Thread-safe.
class RendezvousServer {
 public:
  static Result<std::unique_ptr<RendezvousServer>> Start(net::Loop& loop,
                                                         const RendezvousOptions& options);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  net::Endpoint endpoint() const;

 private:
  class Impl;
  RendezvousServer(std::shared_ptr<Impl> impl, std::unique_ptr<net::Acceptor> acceptor);

  std::shared_ptr<Impl> impl_;
  std::unique_ptr<net::Acceptor> acceptor_;
};

struct JoinOptions {
  net::Endpoint coordinator;
  net::Secret secret = net::Secret::Open();
  wire::Join join;
  std::chrono::steady_clock::time_point deadline;
};

// Joins and waits for the view. kMismatch lists what differs between the ranks, kTimeout names the
// ranks that did not come, kAlreadyRunning a rank that came twice.
Result<wire::View> JoinRendezvous(net::Loop& loop, const JoinOptions& options);

}  // namespace paceline::member

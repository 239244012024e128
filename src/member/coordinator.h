#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "member/coordinator_logic.h"
#include "member/membership.h"
#include "net/acceptor.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/secret.h"

namespace paceline::member {

struct CoordinatorOptions {
  net::Endpoint bind;
  net::Secret secret = net::Secret::Open();
  MembershipOptions membership;
  CoordinatorState state;  // of the coordinator before, if there was one
  // All are called on the loop. A state that cannot be saved ends the coordinator: a view that is
  // not saved must not be announced.
  std::function<Status(const CoordinatorState&)> save;
  std::function<void(const Note&)> on_note;
  std::function<void(const MembershipStatus&)> on_status;  // every heartbeat
};

struct CoordinatorEnd {
  Code code = Code::kOk;
  std::string why;
};

// The server around CoordinatorLogic. Thread-safe.
class Coordinator {
 public:
  static Result<std::unique_ptr<Coordinator>> Start(net::Loop& loop, const Clock& clock,
                                                    const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  net::Endpoint endpoint() const;
  // Waits until the run is over and the workers have been told, or until `stopped` says so.
  CoordinatorEnd Wait(const std::function<bool()>& stopped);

 private:
  class Impl;
  Coordinator(std::shared_ptr<Impl> impl, std::unique_ptr<net::Acceptor> acceptor);

  std::shared_ptr<Impl> impl_;
  std::unique_ptr<net::Acceptor> acceptor_;
};

}  // namespace paceline::member

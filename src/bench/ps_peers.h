#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/subprocess.h"

namespace paceline::bench {

// Other programs that move bytes over loopback. kNotFound: not installed here.

// A unary call of gRPC (bench/peers/grpc_unary.cc), between two processes. Thread-compatible.
class GrpcPeer {
 public:
  // `program` is grpc_unary; a call carries `bytes`.
  static Result<GrpcPeer> Start(const std::string& program, std::size_t bytes);

  // Seconds of one call: "push" or "pull" with bytes as they are, "push message" or "pull message"
  // with a message of protocol buffers that has them in a field.
  Result<double> Call(const std::string& what);

 private:
  GrpcPeer(Subprocess server, Subprocess client)
      : server_(std::move(server)), client_(std::move(client)) {}

  Subprocess server_, client_;
};

// One stream of iperf3. Thread-compatible.
class IperfPeer {
 public:
  enum class Pacing {
    kOfSystem,  // with the congestion control of this machine, which may be one that paces (bbr)
    kNone,      // with Linux's reno, as our own connections inside one machine
  };

  static Result<IperfPeer> Start();
  // Bytes per second that arrive in a second of sending.
  Result<double> BytesPerSecond(Pacing pacing);

 private:
  IperfPeer(Subprocess server, Subprocess clients)
      : server_(std::move(server)), clients_(std::move(clients)) {}
  // Once; it may be refused.
  Result<double> RunClient(Pacing pacing);

  Subprocess server_, clients_;
};

}  // namespace paceline::bench

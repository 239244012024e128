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

// A unary call of gRPC with bytes as they are (bench/peers/grpc_unary.cc), between two processes.
// Thread-compatible.
class GrpcPeer {
 public:
  // `program` is grpc_unary; a call carries `bytes`.
  static Result<GrpcPeer> Start(const std::string& program, std::size_t bytes);

  // Seconds of one call.
  Result<double> Push() { return Call("push"); }
  Result<double> Pull() { return Call("pull"); }

 private:
  GrpcPeer(Subprocess server, Subprocess client)
      : server_(std::move(server)), client_(std::move(client)) {}
  Result<double> Call(const std::string& what);

  Subprocess server_, client_;
};

// What iperf3 reaches with its defaults. Thread-compatible.
class IperfPeer {
 public:
  static Result<IperfPeer> Start();
  // Bytes per second that arrive in a second of sending.
  Result<double> BytesPerSecond();

 private:
  IperfPeer(Subprocess server, std::uint16_t port) : server_(std::move(server)), port_(port) {}

  Subprocess server_;
  std::uint16_t port_ = 0;
};

}  // namespace paceline::bench

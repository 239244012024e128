#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "net/endpoint.h"
#include "testing/temp_dir.h"

namespace paceline::store {

// Why there is no etcd to test with: "skipped: ..."; nothing when there is one.
std::optional<std::string> EtcdMissing();

// A port on 127.0.0.1 that nobody listened on a moment ago.
net::Endpoint UnusedEndpoint();

// An etcd of one member with its data in a temporary directory. It ends with this object, or with
// the test if that dies. Its shortest lease is one second.
class EtcdServer {
 public:
  // Fails the test and returns null when etcd does not come up.
  static std::unique_ptr<EtcdServer> Start();

  const net::Endpoint& endpoint() const { return endpoint_; }
  std::string where() const { return "etcd://" + endpoint_.ToString(); }

  // Stops answering without closing connections, like a machine that hangs; and back.
  void Pause() const;
  void Resume() const;
  void Kill();

 private:
  EtcdServer() = default;
  bool TryStart();

  const testing::TempDir dir_{testing::TempDir::Place::kMemory};
  net::Endpoint endpoint_;
  std::optional<Subprocess> process_;
};

}  // namespace paceline::store

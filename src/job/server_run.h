#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/secret.h"
#include "ps/server_core.h"

namespace paceline::job {

struct ServerRunOptions {
  std::string run;   // directory of the run; the server's own is RUN/servers/server-INDEX
  std::string bind;  // "host:port"; empty: where it was before, or loopback and any port
  net::Secret secret = net::Secret::Open();
  std::uint32_t index = 0;
  std::uint32_t servers = 1;
  ps::Wal wal = ps::Wal::kGroup;
  std::chrono::milliseconds group{20};
  std::string table_store = "memory";
  std::size_t hot_bytes = std::size_t{256} << 20;
  std::vector<std::string> load_from;  // of earlier servers; one with a snapshot needs them no more
  std::function<bool()> stopped;
};

// Serves trainers until it is stopped; then everything is in a snapshot. Recovers first what an
// earlier process of the same server has acknowledged. kAlreadyRunning when that one still lives.
Status RunServer(const ServerRunOptions& options, const Clock& clock);

}  // namespace paceline::job

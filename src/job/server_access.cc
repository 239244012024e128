#include "job/server_access.h"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "job/group.h"
#include "job/stop_signal.h"
#include "kernel/hash.h"
#include "net/endpoint.h"
#include "ps/client.h"
#include "ps/stale_store.h"

namespace paceline::job {

Result<std::unique_ptr<ps::Store>> ConnectToServers(net::Loop& loop, const TrainConfig& config,
                                                    const LaunchEnvironment& launch,
                                                    const ps::JobSpec& job, const GetEnv& getenv) {
  if (launch.servers.empty()) {
    return Status::Error(Code::kInvalidArgument,
                         "--strategy ps, but nobody says where the servers are; use `paceline "
                         "train`, or set PACELINE_SERVERS=HOST:PORT,...");
  }
  ps::ClientOptions options{
      .servers = {},
      .trainer = launch.rank.value(),
      .job = job,
      .away = std::chrono::milliseconds(std::llround(config.server_timeout * 1000)),
      .shared_memory = config.shared_memory != "off"};
  // Synchronous trainers of torch models agree on the step after which they stop, and wait for each
  // other until then.
  if (config.Fused() || config.mode != "sync") {
    options.stopped = [] { return StopRequested() != 0; };
  }
  options.servers.reserve(launch.servers.size());
  for (const std::string& text : launch.servers) {
    PACELINE_ASSIGN(net::Endpoint server, net::ParseEndpoint(text));
    options.servers.push_back(std::move(server));
  }
  PACELINE_ASSIGN(const auto secret, ReadSecret(getenv));
  if (secret) options.secret = *secret;
  PACELINE_ASSIGN(std::unique_ptr<ps::Store> client, ps::Client::Connect(loop, options));
  if (config.server_away == "wait") return client;
  return std::unique_ptr<ps::Store>(
      std::make_unique<ps::StaleStore>(std::move(client), ps::StaleStore::Options{.job = job}));
}

std::string ServerFingerprint(const TrainConfig& config, const std::string& data) {
  kernel::Hasher samples;  // names of a thousand files would be too long
  samples.Update(data);
  auto identity = config.Identity();
  identity["data"] = samples.Hex();
  return MakeFingerprint(identity);
}

}  // namespace paceline::job

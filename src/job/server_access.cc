#include "job/server_access.h"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "job/group.h"
#include "ps/client.h"

namespace paceline::job {

Result<std::vector<net::Endpoint>> ServersFromEnvironment(const GetEnv& getenv) {
  std::vector<net::Endpoint> servers;
  const char* raw = getenv("PACELINE_SERVERS");
  std::string left = raw == nullptr ? "" : raw;
  while (!left.empty()) {
    const std::size_t comma = left.find(',');
    auto server = net::ParseEndpoint(left.substr(0, comma));
    if (!server.ok()) return server.status().Wrap("PACELINE_SERVERS");
    servers.push_back(std::move(*server));
    left = comma == std::string::npos ? "" : left.substr(comma + 1);
  }
  return servers;
}

Result<std::unique_ptr<ps::Store>> ConnectToServers(net::Loop& loop, const TrainConfig& config,
                                                    std::uint64_t rank, const ps::JobSpec& job,
                                                    const GetEnv& getenv) {
  PACELINE_ASSIGN(auto servers, ServersFromEnvironment(getenv));
  if (servers.empty()) {
    return Status::Error(Code::kInvalidArgument,
                         "strategy ps, but nobody says where the servers are; use `paceline "
                         "train`, or set PACELINE_SERVERS");
  }
  ps::ClientOptions options{
      .servers = std::move(servers),
      .trainer = rank,
      .job = job,
      .away = std::chrono::milliseconds(std::llround(config.server_timeout * 1000))};
  PACELINE_ASSIGN(const auto secret, ReadSecret(getenv));
  if (secret) options.secret = *secret;
  PACELINE_ASSIGN(std::unique_ptr<ps::Store> client, ps::Client::Connect(loop, options));
  return client;
}

}  // namespace paceline::job

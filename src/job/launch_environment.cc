#include "job/launch_environment.h"

#include <fmt/format.h>

#include "job/endpoint.h"
#include "job/launch_sources.h"
#include "job/launch_variables.h"

namespace paceline::job {

namespace {

// PACELINE_COORDINATOR overrules what any source says.
Result<std::string> OwnCoordinator(const LaunchVariables& variables) {
  const auto text = variables.Text("PACELINE_COORDINATOR");
  if (!text) return std::string();
  const auto endpoint = ParseEndpoint(*text);
  if (!endpoint.ok()) return endpoint.status().Wrap("PACELINE_COORDINATOR");
  return endpoint->ToString();
}

Result<Launch> RecognizeOwn(const LaunchVariables& variables) {
  if (!variables.Has("PACELINE_RANK")) return Launch();
  PACELINE_ASSIGN(LaunchEnvironment launch,
                  ReadRanks(variables, "paceline",
                            {"PACELINE_RANK", "PACELINE_WORLD", "PACELINE_LOCAL_RANK",
                             "PACELINE_LOCAL_WORLD"}));
  PACELINE_ASSIGN(const auto restarts, variables.Number("PACELINE_RESTARTS"));
  launch.restarts = restarts.value_or(0);
  const std::string role = variables.Text("PACELINE_ROLE").value_or("trainer");
  if (role != "trainer" && role != "server") {
    return variables.Wrong("PACELINE_ROLE", "not trainer or server");
  }
  if (role == "server") launch.role = LaunchRole::kServer;
  return Launch(launch);
}

// PACELINE_SERVERS overrules what any source says.
Status SettleServers(const LaunchVariables& variables, LaunchEnvironment& launch) {
  PACELINE_ASSIGN(std::vector<std::string> own, OwnServers(variables));
  if (!own.empty()) launch.servers = std::move(own);
  if (launch.role == LaunchRole::kServer && launch.rank.value() >= launch.servers.size()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} started server {}, but there are {} addresses of servers",
                                     launch.source, launch.rank.value(), launch.servers.size()));
  }
  return {};
}

// A world without a rank: half of the variables got lost on the way. Alone, every process would
// train for itself.
Status CheckNothingLeftOver(const LaunchVariables& variables) {
  constexpr const char* kPairs[][2] = {{"PACELINE_WORLD", "PACELINE_RANK"},
                                       {"WORLD_SIZE", "RANK"},
                                       {"PET_NNODES", "PET_NODE_RANK"},
                                       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                       {"PMI_SIZE", "PMI_RANK"},
                                       {"HOROVOD_SIZE", "HOROVOD_RANK"},
                                       {"PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID"}};
  for (const auto& [world, rank] : kPairs) {
    if (variables.Has(world)) return LaunchVariables::Missing(rank, world);
  }
  return {};
}

// Rank 0 of several needs a place where the others find it; MPI finds it itself, and with servers
// they are the place.
Status SettleCoordinator(const LaunchVariables& variables, LaunchEnvironment& launch) {
  PACELINE_ASSIGN(std::string own, OwnCoordinator(variables));
  if (!own.empty()) launch.coordinator = std::move(own);
  const bool mpi = launch.source == "open-mpi" || launch.source == "mpich";
  if (launch.coordinator.empty() && launch.world > 1 && !mpi && launch.servers.empty()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} names no coordinator; set PACELINE_COORDINATOR=HOST:PORT "
                                     "to where rank 0 listens",
                                     launch.source));
  }
  return {};
}

}  // namespace

Result<LaunchEnvironment> ReadRanks(const LaunchVariables& variables, std::string source,
                                    const RankNames& names) {
  LaunchEnvironment launch;
  launch.source = std::move(source);
  PACELINE_ASSIGN(const std::uint64_t rank, variables.RequiredNumber(names.rank, names.world));
  PACELINE_ASSIGN(launch.world, variables.RequiredNumber(names.world, names.rank));
  if (launch.world == 0 || launch.world > kMaxWorld) {
    return variables.Wrong(names.world, fmt::format("not from 1 to {}", kMaxWorld));
  }
  if (rank >= launch.world) {
    return variables.Wrong(names.rank,
                           fmt::format("must be less than {}={}", names.world, launch.world));
  }
  launch.rank = Rank(rank);
  if (names.local_rank != nullptr) {
    PACELINE_ASSIGN(launch.local_rank, variables.Number(names.local_rank));
  }
  if (names.local_world != nullptr) {
    PACELINE_ASSIGN(launch.local_world, variables.Number(names.local_world));
  }
  if (launch.local_world && (*launch.local_world == 0 || *launch.local_world > launch.world)) {
    return variables.Wrong(names.local_world,
                           fmt::format("not from 1 to {}={}", names.world, launch.world));
  }
  if (launch.local_rank && *launch.local_rank >= launch.local_world.value_or(launch.world)) {
    return variables.Wrong(names.local_rank, "no such process on one host");
  }
  return launch;
}

Result<std::string> ReadHostAndPort(const LaunchVariables& variables, const char* host_name,
                                    const char* port_name) {
  PACELINE_ASSIGN(const auto host, variables.Host(host_name));
  PACELINE_ASSIGN(const auto port, variables.Port(port_name));
  if (!host) return std::string();
  return Endpoint{*host, port.value_or(kDefaultCoordinatorPort)}.ToString();
}

Result<std::optional<LaunchEnvironment>> RecognizeLaunch(const GetEnv& getenv) {
  const LaunchVariables variables(getenv);
  for (const auto recognize : {RecognizeOwn, RecognizeTorch, RecognizePet, RecognizeOpenMpi,
                               RecognizeMpich, RecognizeSlurm, RecognizeHorovod, RecognizePaddle,
                               RecognizeTensorflow, RecognizeDmlc, RecognizeIndexedJob}) {
    PACELINE_ASSIGN(Launch launch, recognize(variables));
    if (!launch) continue;
    PACELINE_TRY(SettleServers(variables, *launch));
    PACELINE_TRY(SettleCoordinator(variables, *launch));
    return launch;
  }
  PACELINE_TRY(CheckNothingLeftOver(variables));
  PACELINE_ASSIGN(std::vector<std::string> servers, OwnServers(variables));
  if (servers.empty()) return Launch();
  LaunchEnvironment alone{.source = "paceline"};  // the one trainer of servers somewhere else
  alone.servers = std::move(servers);
  return Launch(alone);
}

std::string LaunchEnvironment::Describe() const {
  if (role == LaunchRole::kScheduler) {
    return fmt::format("launch environment: {}, scheduler", source);
  }
  if (role == LaunchRole::kServer) {
    return fmt::format("launch environment: {}, server {} of {} at {}", source, rank.value(), world,
                       servers[rank.value()]);
  }
  std::string text = fmt::format("launch environment: {}, {} {} of {}", source,
                                 processes_per_node > 1 ? "host" : "rank", rank.value(), world);
  if (processes_per_node > 1) text += fmt::format(" with {} processes each", processes_per_node);
  if (!coordinator.empty()) {
    text += ", coordinator " + coordinator;
  } else if (world > 1 && servers.empty()) {
    text += ", no coordinator";
  }
  if (!servers.empty()) {
    text += fmt::format(", {} server{}, first {}", servers.size(), servers.size() == 1 ? "" : "s",
                        servers.front());
  }
  if (restarts > 0) text += fmt::format(", restart {}", restarts);
  return text;
}

LaunchEnvironment LocalProcess(const LaunchEnvironment& node, std::uint64_t local) {
  LaunchEnvironment process = node;
  process.rank = Rank(node.rank.value() * node.processes_per_node + local);
  process.world = node.world * node.processes_per_node;
  process.local_rank = local;
  process.local_world = node.processes_per_node;
  process.processes_per_node = 1;
  return process;
}

std::map<std::string, std::string> ToVariables(const LaunchEnvironment& launch) {
  std::map<std::string, std::string> variables{
      {"PACELINE_RANK", std::to_string(launch.rank.value())},
      {"PACELINE_WORLD", std::to_string(launch.world)}};
  if (launch.local_rank) variables["PACELINE_LOCAL_RANK"] = std::to_string(*launch.local_rank);
  if (launch.local_world) variables["PACELINE_LOCAL_WORLD"] = std::to_string(*launch.local_world);
  if (!launch.coordinator.empty()) variables["PACELINE_COORDINATOR"] = launch.coordinator;
  if (launch.restarts > 0) variables["PACELINE_RESTARTS"] = std::to_string(launch.restarts);
  if (launch.role == LaunchRole::kServer) variables["PACELINE_ROLE"] = "server";
  if (!launch.servers.empty()) {
    variables["PACELINE_SERVERS"] = fmt::format("{}", fmt::join(launch.servers, ","));
  }
  return variables;
}

}  // namespace paceline::job

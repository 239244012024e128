// Launchers that start parameter servers beside trainers: Paddle, TensorFlow, DMLC (ps-lite).
#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "job/endpoint.h"
#include "job/launch_sources.h"

namespace paceline::job {

namespace {

using Json = nlohmann::json;

constexpr char kTfConfig[] = "TF_CONFIG";
constexpr std::size_t kMaxTfConfigBytes = 4U << 20;

LaunchEnvironment Server(std::string source, std::uint64_t index,
                         std::vector<std::string> servers) {
  LaunchEnvironment launch{.source = std::move(source),
                           .rank = Rank(index),
                           .world = servers.size(),
                           .role = LaunchRole::kServer};
  launch.servers = std::move(servers);
  return launch;
}

// cluster.NAME as endpoints; none when it is not there.
Result<std::vector<std::string>> TfEndpoints(const LaunchVariables& variables, const Json& cluster,
                                             const char* name) {
  std::vector<std::string> endpoints;
  const auto list = cluster.find(name);
  if (list == cluster.end()) return endpoints;
  if (!list->is_array()) {
    return variables.Wrong(kTfConfig, fmt::format("cluster.{} is not a list", name));
  }
  endpoints.reserve(list->size());
  for (const Json& each : *list) {
    if (!each.is_string()) {
      return variables.Wrong(kTfConfig, fmt::format("cluster.{} is not a list of HOST:PORT", name));
    }
    const auto endpoint = ParseEndpoint(each.get_ref<const std::string&>());
    if (!endpoint.ok()) return endpoint.status().Wrap(fmt::format("TF_CONFIG: cluster.{}", name));
    endpoints.push_back(endpoint->ToString());
  }
  return endpoints;
}

struct TfTask {
  std::string type;
  std::uint64_t index = 0;
};

Result<TfTask> ReadTfTask(const LaunchVariables& variables, const Json& config) {
  const auto task = config.find("task");
  if (task == config.end() || !task->is_object()) return variables.Wrong(kTfConfig, "no task");
  const auto type = task->find("type"), index = task->find("index");
  if (type == task->end() || !type->is_string()) return variables.Wrong(kTfConfig, "no task.type");
  TfTask result{.type = type->get<std::string>()};
  if (index == task->end()) return result;
  if (!index->is_number_unsigned()) return variables.Wrong(kTfConfig, "task.index is no number");
  result.index = index->get<std::uint64_t>();
  return result;
}

// DMLC_RANK is what the tracker gives out, the others are names of BytePS and of older trackers,
// whose tasks are the workers and, from `first_task` on, the servers.
Result<std::uint64_t> DmlcIndex(const LaunchVariables& variables, const char* id_name,
                                std::uint64_t count, std::uint64_t first_task) {
  constexpr char kTask[] = "DMLC_TASK_ID";
  const char* name = variables.FirstSet({"DMLC_RANK", id_name, kTask});
  if (count == 1 && !variables.Has(name)) return std::uint64_t{0};
  PACELINE_ASSIGN(const std::uint64_t number, variables.RequiredNumber(name, "DMLC_ROLE"));
  const std::uint64_t first = name == std::string_view(kTask) ? first_task : 0;
  if (number >= first && number - first < count) return number - first;
  return variables.Wrong(
      name, first == 0 ? fmt::format("must be less than {}", count)
                       : fmt::format("must be from {} to {}", first, first + count - 1));
}

// The scheduler would tell everybody where the servers are; here it is known from the start, so
// that a server that comes back is found again.
Result<std::vector<std::string>> DmlcServers(const LaunchVariables& variables) {
  PACELINE_ASSIGN(std::vector<std::string> own, OwnServers(variables));
  if (!own.empty()) return own;
  PACELINE_ASSIGN(const std::uint64_t count,
                  variables.RequiredNumber("DMLC_NUM_SERVER", "DMLC_ROLE"));
  if (count != 1) {
    return variables.Wrong("DMLC_NUM_SERVER",
                           "DMLC says where one server is, not several; set "
                           "PACELINE_SERVERS=HOST:PORT,HOST:PORT");
  }
  PACELINE_ASSIGN(const auto host, variables.Host("DMLC_PS_ROOT_URI"));
  PACELINE_ASSIGN(const auto port, variables.Port("DMLC_PS_ROOT_PORT"));
  if (!host) return variables.Missing("DMLC_PS_ROOT_URI", "DMLC_ROLE");
  if (!port) return variables.Missing("DMLC_PS_ROOT_PORT", "DMLC_ROLE");
  return std::vector<std::string>{Endpoint{*host, *port}.ToString()};
}

}  // namespace

Result<std::vector<std::string>> ReadServerList(const LaunchVariables& variables, const char* name,
                                                std::string_view port) {
  std::vector<std::string> servers;
  const auto text = variables.Text(name);
  if (!text) return servers;
  std::string_view left(*text);
  for (bool more = true; more;) {
    const std::size_t comma = left.find(',');
    more = comma != std::string_view::npos;
    const auto endpoint = ParseEndpoint(std::string(left.substr(0, comma)).append(port));
    if (!endpoint.ok()) return endpoint.status().Wrap(name);
    servers.push_back(endpoint->ToString());
    if (more) left.remove_prefix(comma + 1);
  }
  if (servers.size() > kMaxServers) {
    return Status::Error(Code::kInvalidArgument, fmt::format("{} has {} servers, more than {}",
                                                             name, servers.size(), kMaxServers));
  }
  return servers;
}

Result<std::vector<std::string>> OwnServers(const LaunchVariables& variables) {
  return ReadServerList(variables, "PACELINE_SERVERS");
}

// The newer names have addresses. The scripts of the Fluid benchmarks (2018) have hosts, all with
// one port, or addresses in PSERVERS; in their Kubernetes files that is the number of hosts.
Result<std::vector<std::string>> PaddleServers(const LaunchVariables& variables) {
  const char* hosts = "PADDLE_INIT_PSERVERS";
  const char* list = variables.FirstSet(
      {"PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PSERVER_ENDPOINTS", hosts, "PSERVERS"});
  if (list != hosts) return ReadServerList(variables, list);
  PACELINE_ASSIGN(const auto port, variables.Port("PADDLE_INIT_PORT"));
  if (!port) return variables.Missing("PADDLE_INIT_PORT", hosts);
  PACELINE_ASSIGN(auto servers, ReadServerList(variables, hosts, fmt::format(":{}", *port)));
  PACELINE_ASSIGN(const auto count, variables.Number("PSERVERS"));
  if (count.value_or(servers.size()) == servers.size()) return servers;
  return variables.Wrong("PSERVERS", fmt::format("{} has {} hosts", hosts, servers.size()));
}

// A server knows its own address; its index is where that stands in the list.
Result<Launch> RecognizePaddleServer(const LaunchVariables& variables) {
  const char* role = variables.FirstSet({"TRAINING_ROLE", "PADDLE_ROLE"});
  if (variables.Text(role).value_or("") != "PSERVER") return Launch();
  PACELINE_ASSIGN(std::vector<std::string> servers, PaddleServers(variables));
  if (servers.empty()) return variables.Missing("PADDLE_PSERVERS_IP_PORT_LIST", role);
  PACELINE_ASSIGN(const auto host, variables.Host("POD_IP"));
  const char* port_name = variables.FirstSet({"PADDLE_PORT", "PADDLE_INIT_PORT"});
  PACELINE_ASSIGN(const auto port, variables.Port(port_name));
  if (!host) return variables.Missing("POD_IP", role);
  if (!port) return variables.Missing(port_name, role);
  const std::string mine = Endpoint{*host, *port}.ToString();
  const auto found = std::ranges::find(servers, mine);
  if (found == servers.end()) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("POD_IP and {} make {}, which is not in the list of servers", port_name, mine));
  }
  const auto index = static_cast<std::uint64_t>(found - servers.begin());
  return Launch(Server("paddle", index, std::move(servers)));
}

// Ranks of trainers: the chief, then the workers. Without servers they meet at rank 0's address.
Result<Launch> RecognizeTensorflow(const LaunchVariables& variables) {
  const auto text = variables.Text(kTfConfig);
  if (!text) return Launch();
  if (text->size() > kMaxTfConfigBytes) return variables.Wrong(kTfConfig, "too long");
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return variables.Wrong(kTfConfig, "not a JSON object");
  const auto cluster = config.find("cluster");
  if (cluster == config.end()) return Launch();
  if (!cluster->is_object()) return variables.Wrong(kTfConfig, "cluster is not an object");
  PACELINE_ASSIGN(std::vector<std::string> servers, TfEndpoints(variables, *cluster, "ps"));
  PACELINE_ASSIGN(std::vector<std::string> trainers, TfEndpoints(variables, *cluster, "chief"));
  const std::uint64_t chiefs = trainers.size();
  PACELINE_ASSIGN(const auto workers, TfEndpoints(variables, *cluster, "worker"));
  trainers.insert(trainers.end(), workers.begin(), workers.end());
  PACELINE_ASSIGN(const TfTask task, ReadTfTask(variables, config));
  const std::uint64_t count = task.type == "ps"       ? servers.size()
                              : task.type == "chief"  ? chiefs
                              : task.type == "worker" ? workers.size()
                                                      : 0;
  if (task.index >= count || servers.size() > kMaxServers || trainers.size() > kMaxWorld) {
    return variables.Wrong(kTfConfig, fmt::format("the cluster has no {} {}: there are {}",
                                                  task.type, task.index, count));
  }
  if (task.type == "ps") return Launch(Server("tf-config", task.index, std::move(servers)));
  LaunchEnvironment launch{.source = "tf-config",
                           .rank = Rank(task.type == "chief" ? task.index : chiefs + task.index),
                           .world = trainers.size()};
  if (servers.empty()) launch.coordinator = trainers.front();
  launch.servers = std::move(servers);
  return Launch(launch);
}

Result<Launch> RecognizeDmlc(const LaunchVariables& variables) {
  const auto role = variables.Text("DMLC_ROLE");
  if (!role) return Launch();
  if (*role == "scheduler") {
    return Launch(LaunchEnvironment{.source = "dmlc", .role = LaunchRole::kScheduler});
  }
  PACELINE_ASSIGN(std::vector<std::string> servers, DmlcServers(variables));
  if (*role == "server") {
    PACELINE_ASSIGN(const auto workers, variables.Number("DMLC_NUM_WORKER"));
    PACELINE_ASSIGN(const std::uint64_t index,
                    DmlcIndex(variables, "DMLC_SERVER_ID", servers.size(), workers.value_or(0)));
    return Launch(Server("dmlc", index, std::move(servers)));
  }
  if (*role != "worker") {
    return variables.Wrong("DMLC_ROLE", "not worker, server or scheduler");
  }
  PACELINE_ASSIGN(const std::uint64_t world,
                  variables.RequiredNumber("DMLC_NUM_WORKER", "DMLC_ROLE"));
  if (world == 0 || world > kMaxWorld) {
    return variables.Wrong("DMLC_NUM_WORKER", fmt::format("not from 1 to {}", kMaxWorld));
  }
  PACELINE_ASSIGN(const std::uint64_t rank, DmlcIndex(variables, "DMLC_WORKER_ID", world, 0));
  LaunchEnvironment launch{.source = "dmlc", .rank = Rank(rank), .world = world};
  launch.servers = std::move(servers);
  return Launch(launch);
}

}  // namespace paceline::job

// Launchers of training frameworks.
#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "job/endpoint.h"
#include "job/launch_sources.h"

namespace paceline::job {

namespace {

// How many processes a host is asked to start. torchrun's words for "as many as there are devices"
// mean one here: one process uses all cores.
Result<std::uint64_t> ProcessesPerNode(const LaunchVariables& variables) {
  for (const char* name : {"PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"}) {
    const auto text = variables.Text(name);
    if (!text) continue;
    if (*text == "auto" || *text == "cpu" || *text == "gpu") return std::uint64_t{1};
    PACELINE_ASSIGN(const auto number, variables.Number(name));
    if (*number == 0 || *number > kMaxWorld) return variables.Wrong(name, "no number of processes");
    return *number;
  }
  return std::uint64_t{1};
}

Status SpreadOverNodes(const LaunchVariables& variables, LaunchEnvironment& launch) {
  PACELINE_ASSIGN(launch.processes_per_node, ProcessesPerNode(variables));
  if (launch.world > kMaxWorld / launch.processes_per_node) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} hosts with {} processes each are too many", launch.world,
                                     launch.processes_per_node));
  }
  return {};
}

// torchrun's store listens at MASTER_PORT itself when it says so: ours takes the next one.
Result<std::string> TorchCoordinator(const LaunchVariables& variables) {
  PACELINE_ASSIGN(const auto host, variables.Host("MASTER_ADDR"));
  PACELINE_ASSIGN(auto port, variables.Port("MASTER_PORT"));
  if (!host && !port) return std::string();
  if (!host) return variables.Missing("MASTER_ADDR", "MASTER_PORT");
  if (!port) return variables.Missing("MASTER_PORT", "MASTER_ADDR");
  if (variables.IsTrue("TORCHELASTIC_USE_AGENT_STORE")) {
    if (*port == 65535)
      return variables.Wrong("MASTER_PORT", "the port after it is needed as well");
    port = static_cast<std::uint16_t>(*port + 1);
  }
  return Endpoint{*host, *port}.ToString();
}

// PET_NNODES may be a range "min:max"; only one with both ends equal says who takes part.
Result<std::uint64_t> PetNodes(const LaunchVariables& variables) {
  const std::string text = variables.Text("PET_NNODES").value_or("");
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && text.substr(0, colon) != text.substr(colon + 1)) {
    return variables.Wrong("PET_NNODES", "a fixed number of hosts is needed, not a range");
  }
  const std::string number = text.substr(0, colon);
  const GetEnv one = [&](const char*) { return number.c_str(); };
  return LaunchVariables(one).RequiredNumber("PET_NNODES", "PET_NODE_RANK");
}

// The first of "host:port,host:port,...".
std::string FirstOf(const std::string& list) { return list.substr(0, list.find(',')); }

// Rank 0 listens at the first endpoint. PADDLE_MASTER is the launcher's own server: a last resort,
// for when the list was too long for the environment.
Result<std::string> PaddleCoordinator(const LaunchVariables& variables, std::uint64_t world) {
  const char* name = "PADDLE_TRAINER_ENDPOINTS";
  if (const auto list = variables.Text(name)) {
    const auto count = static_cast<std::uint64_t>(std::count(list->begin(), list->end(), ',')) + 1;
    if (count != world) {
      return variables.Wrong(name,
                             fmt::format("{} endpoints, but PADDLE_TRAINERS_NUM={}", count, world));
    }
  } else {
    name = "PADDLE_MASTER";
  }
  const auto text = variables.Text(name);
  if (!text) return std::string();
  const auto endpoint = ParseEndpoint(FirstOf(*text));
  if (!endpoint.ok()) return endpoint.status().Wrap(name);
  return endpoint->ToString();
}

}  // namespace

// torchrun, or anybody who speaks PyTorch's env://; a PyTorchJob of Kubeflow does, for pods.
Result<Launch> RecognizeTorch(const LaunchVariables& variables) {
  if (!variables.Has("RANK")) return Launch();
  const bool torchrun =
      variables.Has("TORCHELASTIC_RUN_ID") || variables.Has("TORCHELASTIC_USE_AGENT_STORE");
  PACELINE_ASSIGN(LaunchEnvironment launch,
                  ReadRanks(variables, torchrun ? "torchrun" : "pytorch-env",
                            {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  PACELINE_ASSIGN(launch.coordinator, TorchCoordinator(variables));
  PACELINE_ASSIGN(const auto restarts, variables.Number("TORCHELASTIC_RESTART_COUNT"));
  launch.restarts = restarts.value_or(0);
  if (!torchrun && !launch.local_rank) PACELINE_TRY(SpreadOverNodes(variables, launch));
  return Launch(launch);
}

// Kubeflow's Trainer: torchrun's options in the environment of a pod, without torchrun.
Result<Launch> RecognizePet(const LaunchVariables& variables) {
  if (!variables.Has("PET_NODE_RANK")) return Launch();
  PACELINE_ASSIGN(const std::uint64_t nodes, PetNodes(variables));
  PACELINE_ASSIGN(const auto rank, variables.Number("PET_NODE_RANK"));
  LaunchEnvironment launch{.source = "pet", .rank = Rank(*rank), .world = nodes};
  if (nodes == 0 || nodes > kMaxWorld) return variables.Wrong("PET_NNODES", "no number of hosts");
  if (*rank >= nodes) {
    return variables.Wrong("PET_NODE_RANK", fmt::format("must be less than PET_NNODES={}", nodes));
  }
  PACELINE_TRY(SpreadOverNodes(variables, launch));
  PACELINE_ASSIGN(launch.coordinator,
                  ReadHostAndPort(variables, "PET_MASTER_ADDR", "PET_MASTER_PORT"));
  return Launch(launch);
}

// Horovod's own server listens at the rendezvous port, on the host of horovodrun.
Result<Launch> RecognizeHorovod(const LaunchVariables& variables) {
  if (!variables.Has("HOROVOD_RANK")) return Launch();
  PACELINE_ASSIGN(
      LaunchEnvironment launch,
      ReadRanks(variables, "horovod",
                {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"}));
  PACELINE_ASSIGN(const auto host, variables.Host("HOROVOD_GLOO_RENDEZVOUS_ADDR"));
  PACELINE_ASSIGN(const auto port, variables.Port("HOROVOD_GLOO_RENDEZVOUS_PORT"));
  if (host && port && *port < 65535) {
    launch.coordinator = Endpoint{*host, static_cast<std::uint16_t>(*port + 1)}.ToString();
  }
  return Launch(launch);
}

Result<Launch> RecognizePaddle(const LaunchVariables& variables) {
  PACELINE_ASSIGN(Launch server, RecognizePaddleServer(variables));
  // The second ones are those of the Fluid benchmarks' scripts.
  const char* rank = variables.FirstSet({"PADDLE_TRAINER_ID", "PADDLE_INIT_TRAINER_ID"});
  const char* world = variables.FirstSet({"PADDLE_TRAINERS_NUM", "TRAINERS"});
  if (!server && !variables.Has(rank) && variables.Has("TRAINING_ROLE") &&
      variables.Has("TRAINERS")) {
    return variables.Missing("PADDLE_INIT_TRAINER_ID", "TRAINERS");
  }
  if (server || !variables.Has(rank)) return server;
  for (const char* role : {"TRAINING_ROLE", "PADDLE_ROLE"}) {
    if (variables.Text(role).value_or("TRAINER") != "TRAINER") {
      return variables.Wrong(role, "not TRAINER or PSERVER");
    }
  }
  const bool old_name = !variables.Has("PADDLE_LOCAL_RANK");
  PACELINE_ASSIGN(LaunchEnvironment launch,
                  ReadRanks(variables, "paddle",
                            {rank, world, old_name ? "PADDLE_RANK_IN_NODE" : "PADDLE_LOCAL_RANK",
                             "PADDLE_LOCAL_SIZE"}));
  PACELINE_ASSIGN(launch.servers, PaddleServers(variables));
  PACELINE_ASSIGN(launch.coordinator, PaddleCoordinator(variables, launch.world));
  return Launch(launch);
}

}  // namespace paceline::job

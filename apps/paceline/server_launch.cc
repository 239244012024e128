#include "paceline/server_launch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "disk/file_system.h"
#include "disk/run_lock.h"
#include "job/chaos.h"
#include "job/endpoint.h"
#include "job/lease_taker.h"
#include "job/placement.h"
#include "job/run_dir.h"
#include "job/server_folders.h"
#include "job/server_launcher.h"
#include "job/worker_environment.h"
#include "net/secret.h"
#include "paceline/elastic_launch.h"
#include "paceline/local_launch.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::seconds kLastSnapshot(300);  // as long as a server may take for it

std::vector<std::string> ServerCommand(const std::string& folder, const job::TrainConfig& config,
                                       std::uint64_t index, std::uint64_t servers,
                                       const std::string& bind) {
  return {folder + "/paceline",
          "server",
          "--run",
          config.run,
          "--index",
          std::to_string(index),
          "--servers",
          std::to_string(servers),
          "--bind",
          bind,
          "--wal",
          config.wal,
          "--wal-group-ms",
          std::to_string(config.wal_group_ms),
          "--table-store",
          config.table_store,
          "--table-memory-mb",
          std::to_string(config.table_memory_mb)};
}

// A server takes and frees megabytes for every push; they stay in the process instead of going back
// to the kernel each time. Not on huge pages, as those of trainers: rows come one by one.
std::map<std::string, std::string> ServerEnvironment(const net::Secret& secret) {
  std::map<std::string, std::string> environment = job::WorkerEnvironment(::getenv);
  std::erase_if(environment, [](const auto& entry) { return !entry.first.starts_with("MALLOC_"); });
  environment["PACELINE_SECRET"] = secret.ToHex();
  return environment;
}

// Some hundred pushes of a trainer, but of a short run so little that all trainers get some.
std::uint64_t LeaseSamples(const job::TrainConfig& config) {
  constexpr std::uint64_t kMostPushes = 256, kLeasesOfATrainer = 16;
  const std::uint64_t steps = config.mode == "half-async" ? config.merge
                              : config.mode == "geo"      ? config.geo_steps
                                                          : 1;
  const std::uint64_t push = steps * static_cast<std::uint64_t>(config.batch);
  const std::uint64_t pushes = PlannedSteps(config) * config.GlobalBatch() / push;
  const std::uint64_t each =
      pushes / (kLeasesOfATrainer * static_cast<std::uint64_t>(config.workers));
  return push * std::clamp<std::uint64_t>(each, 1, kMostPushes);
}

job::ChildSpec TrainerChild(const std::vector<std::string>& trainer,
                            const job::WorkerPlacement& place, const job::LaunchEnvironment& launch,
                            const std::map<std::string, std::string>& environment) {
  job::ChildSpec child{.argv = trainer,
                       .environment = environment,
                       .cpus = place.cpus,
                       .label = fmt::format("trainer {}", launch.rank.value()),
                       .rank = launch.rank,
                       .local_rank = launch.rank.value()};
  child.argv.insert(child.argv.end(), {"--threads", std::to_string(place.threads)});
  for (const auto& [name, value] : job::ToVariables(launch)) child.environment[name] = value;
  return child;
}

}  // namespace

Result<int> LaunchWithServers(const job::TrainConfig& config,
                              const std::vector<std::string>& trainer) {
  const auto trainers = static_cast<std::uint64_t>(config.workers);
  const auto servers = static_cast<std::uint64_t>(config.servers);
  PACELINE_ASSIGN(const auto chaos,
                  job::ParseServerChaos(config.chaos, {.trainers = trainers,
                                                       .servers = servers,
                                                       .steps = PlannedSteps(config),
                                                       .elastic = config.Elastic()}));
  PACELINE_TRY(PrepareRunDirectory(config));
  const job::RunDirectory servers_directory(job::RunDirectory(config.run).ServersDirectory());
  PACELINE_TRY(servers_directory.Create());
  // Not the run's own lock, which trainer 0 holds.
  PACELINE_ASSIGN(const disk::RunLock lock,
                  disk::RunLock::Acquire(servers_directory.path(), SystemClock()));
  disk::PosixFileSystem files;
  PACELINE_ASSIGN(const std::vector<std::string> load_from,
                  job::PrepareServerFolders(files, config.run, servers));
  PACELINE_ASSIGN(const net::Secret secret, net::Secret::Generate());
  PACELINE_ASSIGN(const job::Placement placement, PlaceWorkers(config, trainers));
  const std::map<std::string, std::string> server_environment = ServerEnvironment(secret);
  std::map<std::string, std::string> environment = job::WorkerEnvironment(::getenv);
  environment["PACELINE_SECRET"] = secret.ToHex();

  job::ServerLaunchOptions options{
      .run = config.run,
      .servers = servers,
      .trainers = trainers,
      .start_trainers = static_cast<std::uint64_t>(config.start_workers),
      .restarts = config.restarts,
      .quiet = config.quiet,
      .chaos = chaos,
      .inherit_first_stderr = ::isatty(2) == 1 && !config.Elastic(),
      .server_grace = kLastSnapshot};
  options.server = [&](std::uint64_t index, const std::string& bind) {
    const std::string place = bind.empty() ? "127.0.0.1:0" : bind;
    auto command = ServerCommand(ExecutableDirectory(), config, index, servers, place);
    if (!load_from.empty()) command.emplace_back("--load-from");
    command.insert(command.end(), load_from.begin(), load_from.end());
    return job::ChildSpec{.argv = std::move(command),
                          .environment = server_environment,
                          .label = fmt::format("server {}", index),
                          .rank = Rank(trainers + index)};
  };
  options.trainer = [&](std::uint64_t rank, const job::ServerLaunchOptions::Places& places) {
    const job::LaunchEnvironment launch{.source = "paceline",
                                        .rank = Rank(rank),
                                        .world = trainers,
                                        .local_rank = rank,
                                        .local_world = trainers,
                                        .coordinator = places.coordinator,
                                        .servers = places.servers};
    job::ChildSpec child = TrainerChild(trainer, placement.workers[rank], launch, environment);
    child.plain_stdout = config.Elastic();  // whoever leads prints the summary
    const bool complete = config.Elastic() && places.coordinator.empty();
    if (complete) child.environment[job::kRunComplete] = "1";
    return child;
  };
  if (config.Elastic()) {
    options.coordinator = [&](bool restarted) {
      job::ChildSpec child{.argv = CoordinatorCommand(config, restarted),
                           .environment = environment,
                           .label = "coordinator",
                           .rank = Rank(trainers + servers)};
      child.argv.insert(child.argv.end(),
                        {"--lease-samples", std::to_string(LeaseSamples(config))});
      return child;
    };
  }
  auto code = job::RunServerLauncher(options);
  if (code.ok() && *code == 0 && !chaos.empty()) PACELINE_TRY(AuditAfterChaos(config.run));
  return code;
}

Result<int> LaunchWithServersOnHosts(const job::TrainConfig& config, job::LaunchPlan plan,
                                     const ServersOnHosts& how) {
  if (config.Elastic()) {
    return Status::Error(Code::kInvalidArgument,
                         "on hosts the number of --workers is fixed, not " + config.WorkersText());
  }
  if (!config.chaos.empty()) {
    return Status::Error(Code::kInvalidArgument, "--chaos works on one machine, not on hosts");
  }
  PACELINE_ASSIGN(const auto places,
                  job::PlaceServers(plan.hosts, plan.this_host, how.address,
                                    static_cast<std::uint64_t>(config.servers), how.port));
  PACELINE_ASSIGN(const net::Secret secret, net::Secret::Generate());
  plan.secret = secret.ToHex();
  for (const job::ServerPlace& place : places) plan.servers.push_back(place.endpoint);
  PACELINE_ASSIGN(const std::vector<job::ChildSpec> trainers, job::PlanLaunch(plan));
  const std::string folder = std::filesystem::path(plan.worker.front()).parent_path().string();
  plan.grace = kLastSnapshot;
  std::vector<job::ChildSpec> servers;
  servers.reserve(places.size());
  for (std::uint64_t i = 0; i < places.size(); ++i) {
    PACELINE_ASSIGN(
        job::ChildSpec server,
        job::PlanServer(plan, places[i], i, Rank(trainers.size() + i),
                        ServerCommand(folder, config, i, places.size(), places[i].bind)));
    servers.push_back(std::move(server));
  }
  if (how.dry_run) {
    for (const job::ChildSpec& child : servers) fmt::print("{}\n", job::RenderCommand(child));
    for (const job::ChildSpec& child : trainers) fmt::print("{}\n", job::RenderCommand(child));
    return 0;
  }
  job::ServerLaunchOptions options{.program = how.program_name,
                                   .run = config.run,
                                   .servers = servers.size(),
                                   .trainers = trainers.size(),
                                   .restarts = config.restarts,
                                   .quiet = config.quiet,
                                   .endpoints = plan.servers,
                                   .server_grace = kLastSnapshot};
  options.server = [&](std::uint64_t index, const std::string&) { return servers[index]; };
  options.trainer = [&](std::uint64_t rank, const auto&) { return trainers[rank]; };
  return job::RunServerLauncher(options);
}

Result<int> BecomeServer(const job::TrainConfig& config, const job::LaunchEnvironment& launch) {
  if (!config.quiet) fmt::print(stderr, "{}\n", launch.Describe());
  if (launch.role == job::LaunchRole::kScheduler) return 0;  // everybody knows where everybody is
  const std::uint64_t index = launch.rank.value();
  PACELINE_ASSIGN(job::Endpoint bind, job::ParseEndpoint(launch.servers[index]));
  if (!config.bind.empty()) bind.host = config.bind;
  return BecomeProgram(
      ServerCommand(ExecutableDirectory(), config, index, launch.servers.size(), bind.ToString()),
      {});
}

}  // namespace paceline::cli

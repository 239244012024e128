#include "paceline/local_launch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "job/launcher.h"
#include "job/placement.h"
#include "job/run_dir.h"
#include "job/worker_environment.h"
#include "member/rendezvous.h"
#include "net/loop.h"
#include "net/secret.h"

namespace paceline::cli {

namespace {

// Only the launcher's main thread takes them; threads inherit the mask.
void BlockStopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

std::vector<std::string> WithThreads(std::vector<std::string> worker, int threads) {
  worker.emplace_back("--threads");
  worker.push_back(fmt::format("{}", threads));
  return worker;
}

job::LauncherOptions Launcher() {
  return {.program = "paceline train", .inherit_first_stderr = ::isatty(2) == 1};
}

// mpirun is a launcher of its own; it starts the workers and forwards what they say.
Result<int> LaunchWithMpi(const job::TrainConfig& config, const std::vector<std::string>& worker) {
  PACELINE_ASSIGN(const job::Placement placement,
                  PlaceWorkers(config, static_cast<std::uint64_t>(config.workers)));
  std::vector<std::string> argv{"mpirun",
                                "-np",
                                std::to_string(config.workers),
                                "--oversubscribe",
                                "--bind-to",
                                "none",
                                "--mca",
                                "mpi_yield_when_idle",
                                "1"};
  if (::geteuid() == 0) argv.emplace_back("--allow-run-as-root");
  const std::vector<std::string> command = WithThreads(worker, placement.workers.front().threads);
  argv.insert(argv.end(), command.begin(), command.end());
  job::ChildSpec mpirun{.argv = argv, .environment = job::WorkerEnvironment(::getenv)};
  return job::RunLauncher(Launcher(), {mpirun});
}

}  // namespace

std::uint64_t PlannedSteps(const job::TrainConfig& config) {
  if (config.steps > 0) return config.steps;
  return config.epochs * config.train_samples / std::max<std::uint64_t>(1, config.GlobalBatch());
}

Status PrepareRunDirectory(const job::TrainConfig& config) {
  const job::RunDirectory directory(config.run);
  if (directory.Used() && !config.resume) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} holds a run already; continue it with --resume, or choose "
                                     "another --run",
                                     config.run));
  }
  return directory.Create();
}

Status BecomeProgram(std::vector<std::string> argv,
                     const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (std::string& argument : argv) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  return Status::Error(Code::kInternal,
                       fmt::format("cannot start {}: {}", argv.front(), std::strerror(errno)));
}

Result<job::Placement> PlaceWorkers(const job::TrainConfig& config, std::uint64_t workers) {
  PACELINE_ASSIGN(const job::PlacementPolicy policy, job::ParsePlacementPolicy(config.placement));
  job::PlacementRequest request{
      .available = job::ReadAvailableCpus(), .workers = workers, .policy = policy};
  // A trainer of tables computes with one, whatever cores there are.
  if (config.reproducible || config.Fused()) request.threads_per_worker = 1;
  if (config.threads_given) request.threads_per_worker = static_cast<int>(config.threads);
  const job::Placement placement = job::PlanPlacement(request);
  if (config.quiet) return placement;
  for (const std::string& line : placement.Describe()) fmt::print(stderr, "{}\n", line);
  if (!placement.warning.empty()) fmt::print(stderr, "warning: {}\n", placement.warning);
  return placement;
}

Result<int> LaunchLocally(const job::TrainConfig& config,
                          const std::optional<job::LaunchEnvironment>& node,
                          const std::vector<std::string>& worker) {
  if (config.engine == "mpi" && !node) return LaunchWithMpi(config, worker);
  BlockStopSignals();
  const std::uint64_t local =
      node ? node->processes_per_node : static_cast<std::uint64_t>(config.workers);
  PACELINE_ASSIGN(const job::Placement placement, PlaceWorkers(config, local));
  std::map<std::string, std::string> environment = job::WorkerEnvironment(::getenv);
  job::LaunchEnvironment all{.source = "paceline", .world = local};
  net::Loop loop;
  std::unique_ptr<member::RendezvousServer> rendezvous;
  if (!node) {
    PACELINE_ASSIGN(const net::Secret secret, net::Secret::Generate());
    PACELINE_ASSIGN(rendezvous,
                    member::RendezvousServer::Start(loop, {.secret = secret, .world = local}));
    all.coordinator = rendezvous->endpoint().ToString();
    environment["PACELINE_SECRET"] = secret.ToHex();
    environment.emplace("PACELINE_COORDINATOR_RUNS", "yes");
  }
  std::vector<job::ChildSpec> children;
  children.reserve(local);
  for (std::uint64_t i = 0; i < local; ++i) {
    job::LaunchEnvironment mine = node ? job::LocalProcess(*node, i) : all;
    if (!node) {
      mine.rank = Rank(i);
      mine.local_rank = i;
      mine.local_world = local;
    }
    job::ChildSpec child{.argv = WithThreads(worker, placement.workers[i].threads),
                         .environment = environment,
                         .cpus = placement.workers[i].cpus,
                         .label = fmt::format("w{}", mine.rank.value()),
                         .rank = mine.rank,
                         .local_rank = i};
    for (const auto& [name, value] : job::ToVariables(mine)) child.environment[name] = value;
    children.push_back(std::move(child));
  }
  return job::RunLauncher(Launcher(), std::move(children));
}

}  // namespace paceline::cli

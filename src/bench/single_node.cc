#include "bench/single_node.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "bench/step_server.h"

namespace paceline::bench {

namespace {

bool CpuAllowed(int cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
         CPU_ISSET(static_cast<std::size_t>(cpu), &allowed);
}

std::filesystem::path PeerScript(const SingleNodeOptions& options, const std::string& peer) {
  return options.peers_dir / fmt::format("{}_{}.py", peer, options.peer_family);
}

// Peer and family become part of a file name.
bool IsPlainName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == '-';
  });
}

Status InvalidSingleNode(std::string message) {
  return Status::Error(Code::kInvalidArgument, std::move(message));
}

// One run of the benchmark; systems_[0] is ours.
class SingleNodeHarness {
 public:
  SingleNodeHarness(const SingleNodeOptions& options, const Progress& progress,
                    std::stop_token stop, SingleNodeResults* results);
  Status Run();

 private:
  Status RunBatch(int batch);
  Status StartAll(int batch);
  StepTask Task(int batch) const;
  Result<StepServer> Start(std::size_t system, int batch);
  Status Check(std::size_t system, const ServerInfo& info, int batch) const;
  Status WarmUp();
  Status Round(int round, int batch, BatchRuns* runs);
  Status QuitAll(BatchRuns* runs);

  const SingleNodeOptions& options_;
  const Progress& progress_;
  const std::stop_token stop_;
  SingleNodeResults& results_;
  std::vector<std::vector<std::string>> commands_;  // per system
  std::vector<std::optional<StepServer>> servers_;  // per system; none: not available
};

SingleNodeHarness::SingleNodeHarness(const SingleNodeOptions& options, const Progress& progress,
                                     std::stop_token stop, SingleNodeResults* results)
    : options_(options), progress_(progress), stop_(std::move(stop)), results_(*results) {
  results_.systems.push_back({.name = "Paceline"});
  commands_.push_back(options.worker);
  for (const std::string& peer : options.peers) {
    results_.systems.push_back({.name = peer});
    commands_.push_back({options.python, PeerScript(options, peer).string()});
  }
}

Status SingleNodeHarness::Run() {
  std::error_code error;
  std::filesystem::create_directories(options_.out_dir / "logs", error);
  if (error) {
    return Status::Error(
        Code::kDisk, fmt::format("cannot make {}: {}", options_.out_dir.string(), error.message()));
  }
  for (const int batch : options_.batches) PACELINE_TRY(RunBatch(batch));
  return {};
}

Status SingleNodeHarness::RunBatch(int batch) {
  PACELINE_TRY(StartAll(batch));
  PACELINE_TRY(WarmUp());
  BatchRuns& runs = results_.batches.emplace_back(BatchRuns{.batch = batch});
  runs.systems.resize(results_.systems.size());
  for (int round = 0; round < options_.config.rounds; ++round) {
    PACELINE_TRY(Round(round, batch, &runs));
  }
  return QuitAll(&runs);
}

Status SingleNodeHarness::StartAll(int batch) {
  servers_.clear();
  for (std::size_t i = 0; i < results_.systems.size(); ++i) {
    std::optional<StepServer>& server = servers_.emplace_back();
    SystemInfo& system = results_.systems[i];
    if (!system.unavailable.empty()) continue;
    auto started = Start(i, batch);
    if (!started.ok()) {
      const bool is_peer = i > 0;
      if (!is_peer || started.status().code() != Code::kUnavailable) return started.status();
      system.unavailable = started.status().message();
      progress_(fmt::format("not available: {}", system.unavailable));
      continue;
    }
    PACELINE_TRY(Check(i, started->info(), batch));
    server.emplace(std::move(*started));
    const ServerInfo& info = server->info();
    system = {.name = info.system,
              .version = info.version,
              .params = info.params,
              .tensors = info.tensors};
    progress_(fmt::format("batch {}  {} {} is ready", batch, system.name, system.version));
  }
  return {};
}

StepTask SingleNodeHarness::Task(int batch) const {
  return {.model = options_.config.model,
          .batch = batch,
          .threads = options_.config.threads,
          .params = options_.expected_params,
          .tensors = options_.expected_tensors};
}

Result<StepServer> SingleNodeHarness::Start(std::size_t system, int batch) {
  const SingleNodeConfig& config = options_.config;
  const std::string label = system == 0 ? "paceline" : options_.peers[system - 1];
  StepServerOptions server{
      .name = results_.systems[system].name,
      .argv = commands_[system],
      .cpus = config.cpu ? std::vector<int>{*config.cpu} : std::vector<int>(),
      .stderr_path = options_.out_dir / "logs" / fmt::format("{}-{}.stderr", label, batch),
      .ready_timeout = options_.ready_timeout,
      .run_timeout = options_.run_timeout};
  AddTask(Task(batch), &server);
  if (system == 0) {
    server.environment.insert(options_.worker_environment.begin(),
                              options_.worker_environment.end());
  }
  return StepServer::Start(server, stop_);
}

Status SingleNodeHarness::Check(std::size_t system, const ServerInfo& info, int batch) const {
  PACELINE_TRY(CheckTask(Task(batch), info));
  for (std::size_t other = 0; other < system; ++other) {
    if (results_.systems[other].name == info.system) {
      return Status::Error(Code::kMismatch,
                           fmt::format("two systems call themselves {}", info.system));
    }
  }
  return {};
}

Status SingleNodeHarness::WarmUp() {
  if (options_.config.warmup_steps == 0) return {};
  for (auto& server : servers_) {
    if (!server) continue;
    const auto timing = server->Run(options_.config.warmup_steps, stop_);
    if (!timing.ok()) return timing.status().Wrap("warming up");
  }
  return {};
}

Status SingleNodeHarness::Round(int round, int batch, BatchRuns* runs) {
  for (std::size_t turn = 0; turn < servers_.size(); ++turn) {
    const std::size_t i = round % 2 == 0 ? turn : servers_.size() - 1 - turn;
    if (!servers_[i]) continue;
    auto timing = servers_[i]->Run(StepsPerRound(options_.config, batch), stop_);
    if (!timing.ok()) return timing.status();
    SystemRuns& system = runs->systems[i];
    system.seconds.push_back(timing->seconds);
    system.samples = timing->samples;
    system.last_loss = timing->loss;
  }
  std::string line = fmt::format("batch {}  round {}/{}", batch, round + 1, options_.config.rounds);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i]) continue;
    const SystemRuns& system = runs->systems[i];
    line += fmt::format("  {} {:.1f}", results_.systems[i].name,
                        static_cast<double>(system.samples) / system.seconds.back());
  }
  progress_(line + " samples/s");
  return stop_.stop_requested() ? Status::Error(Code::kAborted, "stopped") : Status();
}

Status SingleNodeHarness::QuitAll(BatchRuns* runs) {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i]) continue;
    PACELINE_ASSIGN(runs->systems[i].max_rss_bytes, servers_[i]->Quit(stop_));
  }
  servers_.clear();
  return {};
}

}  // namespace

std::optional<int> DefaultCpu(int threads) {
  if (threads != 1) return std::nullopt;
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (CpuAllowed(cpu)) return cpu;
  }
  return std::nullopt;
}

Status Validate(const SingleNodeOptions& options) {
  const SingleNodeConfig& config = options.config;
  if (options.batches.empty()) return InvalidSingleNode("at least one batch size is needed");
  for (const int batch : options.batches) {
    if (batch < 2) return InvalidSingleNode(fmt::format("batch size {} is below 2", batch));
  }
  if (config.rounds < 1) return InvalidSingleNode("rounds must be at least 1");
  if (config.samples_per_round < 1)
    return InvalidSingleNode("samples per round must be at least 1");
  if (config.warmup_steps < 0) return InvalidSingleNode("warm-up steps must not be negative");
  if (config.threads < 1) return InvalidSingleNode("threads must be at least 1");
  if (config.cpu && config.threads > 1) {
    return InvalidSingleNode(
        fmt::format("{} threads pinned to one CPU measure nothing", config.threads));
  }
  if (config.cpu && !CpuAllowed(*config.cpu)) {
    return InvalidSingleNode(fmt::format("CPU {} is not one this process may use", *config.cpu));
  }
  if (options.worker.empty()) return InvalidSingleNode("no worker program given");
  if (!IsPlainName(options.peer_family)) {
    return InvalidSingleNode(fmt::format("bad name of a family {}", options.peer_family));
  }
  for (const std::string& peer : options.peers) {
    std::error_code error;
    if (!IsPlainName(peer) || !std::filesystem::exists(PeerScript(options, peer), error)) {
      return InvalidSingleNode(
          fmt::format("unknown peer {}: there is no {}", peer, PeerScript(options, peer).string()));
    }
  }
  return {};
}

SingleNodeOutcome RunSingleNode(const SingleNodeOptions& options, const job::Machine& machine,
                                const Provenance& provenance, const Progress& progress,
                                std::stop_token stop) {
  SingleNodeOutcome outcome;
  outcome.results.provenance = provenance;
  outcome.results.machine = machine;
  outcome.results.config = options.config;
  outcome.status = Validate(options);
  if (outcome.status.ok()) {
    outcome.status = SingleNodeHarness(options, progress, std::move(stop), &outcome.results).Run();
  }
  outcome.results.partial = !outcome.status.ok();
  outcome.results.failure = outcome.status.message();
  return outcome;
}

}  // namespace paceline::bench

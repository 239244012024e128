#include "bench/scaling.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "bench/private_folder.h"
#include "bench/step_team.h"
#include "job/launch_environment.h"
#include "member/rendezvous.h"
#include "net/loop.h"
#include "net/secret.h"

namespace paceline::bench {

namespace {

enum class Mode { kAlone, kTogether };

// One of those that take turns.
struct Team {
  std::size_t system = 0;
  Mode mode = Mode::kAlone;
  std::optional<StepTeam> servers;  // none: not available
};

Status InvalidScaling(std::string message) {
  return Status::Error(Code::kInvalidArgument, std::move(message));
}

std::filesystem::path PeerScript(const ScalingOptions& options) {
  return options.peers_dir / fmt::format("{}_{}.py", options.peer, options.peer_family);
}

TeamRuns& RunsOf(const Team& team, ScalingResults* results) {
  ScalingSystem& system = results->systems[team.system];
  return team.mode == Mode::kAlone ? system.alone : system.together;
}

std::string ModeName(const Team& team, const ScalingResults& results) {
  return team.mode == Mode::kAlone ? "alone" : results.systems[team.system].together_name;
}

// One run of the benchmark; system 0 is ours.
class ScalingHarness {
 public:
  ScalingHarness(const ScalingOptions& options, const Progress& progress, std::stop_token stop,
                 ScalingResults* results);
  Status Run();

 private:
  Status OpenMeetings();
  Status StartAll();
  Status StartTeam(Team* team);
  StepServerOptions PlanRank(const Team& team, int rank) const;
  void AddOurGroup(int rank, StepServerOptions* server) const;
  void AddPeerGroup(int rank, StepServerOptions* server) const;
  StepTask Task() const;
  Status Turn(Team* team, int steps);
  Status Round(int round);
  Status QuitAll();

  const ScalingOptions& options_;
  const Progress& progress_;
  const std::stop_token stop_;
  ScalingResults& results_;
  std::optional<PrivateFolder> folder_;  // where the peer's workers meet
  net::Secret secret_ = net::Secret::Open();
  net::Loop loop_;
  std::unique_ptr<member::RendezvousServer> rendezvous_;  // where ours meet
  std::vector<Team> teams_;
};

ScalingHarness::ScalingHarness(const ScalingOptions& options, const Progress& progress,
                               std::stop_token stop, ScalingResults* results)
    : options_(options), progress_(progress), stop_(std::move(stop)), results_(*results) {
  results_.systems.push_back({.info = {.name = "Paceline"}, .together_name = "allreduce"});
  if (!options.peer.empty()) {
    results_.systems.push_back({.info = {.name = options.peer}, .together_name = "DDP"});
  }
  for (std::size_t i = 0; i < results_.systems.size(); ++i) {
    teams_.push_back({.system = i, .mode = Mode::kAlone});
    teams_.push_back({.system = i, .mode = Mode::kTogether});
  }
}

Status ScalingHarness::Run() {
  PACELINE_TRY(OpenMeetings());
  PACELINE_TRY(StartAll());
  for (Team& team : teams_) {
    if (!team.servers || options_.config.warmup_steps == 0) continue;
    const auto timing = team.servers->Run(options_.config.warmup_steps, stop_);
    if (!timing.ok()) return timing.status().Wrap("warming up");
  }
  for (int round = 0; round < options_.config.rounds; ++round) PACELINE_TRY(Round(round));
  return QuitAll();
}

Status ScalingHarness::OpenMeetings() {
  std::error_code error;
  std::filesystem::create_directories(options_.out_dir / "logs", error);
  if (error) {
    return Status::Error(
        Code::kDisk, fmt::format("cannot make {}: {}", options_.out_dir.string(), error.message()));
  }
  PACELINE_ASSIGN(PrivateFolder folder, PrivateFolder::Make());
  folder_.emplace(std::move(folder));
  PACELINE_ASSIGN(secret_, net::Secret::Generate());
  PACELINE_ASSIGN(rendezvous_,
                  member::RendezvousServer::Start(
                      loop_, {.secret = secret_,
                              .world = static_cast<std::uint64_t>(options_.config.workers)}));
  return {};
}

Status ScalingHarness::StartAll() {
  for (Team& team : teams_) {
    SystemInfo& system = results_.systems[team.system].info;
    if (!system.unavailable.empty()) continue;
    const Status started = StartTeam(&team);
    const bool is_peer = team.system > 0;
    if (is_peer && started.code() == Code::kUnavailable) {
      system.unavailable = started.message();
      for (Team& other : teams_) {
        if (other.system == team.system) other.servers.reset();
      }
      progress_(fmt::format("not available: {}", system.unavailable));
      continue;
    }
    PACELINE_TRY(started);
    progress_(fmt::format("{} {} {}: {} workers are ready", system.name, system.version,
                          ModeName(team, results_), options_.config.workers));
  }
  return {};
}

Status ScalingHarness::StartTeam(Team* team) {
  std::vector<StepServerOptions> ranks;
  ranks.reserve(static_cast<std::size_t>(options_.config.workers));
  for (int rank = 0; rank < options_.config.workers; ++rank) ranks.push_back(PlanRank(*team, rank));
  PACELINE_ASSIGN(StepTeam servers, StepTeam::Start(ranks, stop_));
  const ServerInfo& info = servers.info();
  PACELINE_TRY(CheckTask(Task(), info));
  results_.systems[team->system].info = {
      .name = info.system, .version = info.version, .params = info.params, .tensors = info.tensors};
  team->servers.emplace(std::move(servers));
  return {};
}

StepTask ScalingHarness::Task() const {
  return {.model = options_.config.model,
          .batch = options_.config.batch,
          .threads = options_.config.threads,
          .params = options_.expected_params,
          .tensors = options_.expected_tensors};
}

StepServerOptions ScalingHarness::PlanRank(const Team& team, int rank) const {
  const bool ours = team.system == 0;
  const std::string label = fmt::format("{}-{}-{}", ours ? "paceline" : options_.peer,
                                        team.mode == Mode::kAlone ? "alone" : "together", rank);
  StepServerOptions server{.name = results_.systems[team.system].info.name,
                           .stderr_path = options_.out_dir / "logs" / (label + ".stderr"),
                           .ready_timeout = options_.ready_timeout,
                           .run_timeout = options_.run_timeout};
  if (!options_.config.cpus.empty()) {
    server.cpus = options_.config.cpus[static_cast<std::size_t>(rank)];
  }
  if (ours) {
    server.argv = options_.worker;
    server.environment = options_.worker_environment;
  } else {
    server.argv = {options_.python, PeerScript(options_).string()};
  }
  AddTask(Task(), &server);
  if (team.mode == Mode::kAlone) return server;
  ours ? AddOurGroup(rank, &server) : AddPeerGroup(rank, &server);
  return server;
}

void ScalingHarness::AddOurGroup(int rank, StepServerOptions* server) const {
  const auto world = static_cast<std::uint64_t>(options_.config.workers);
  const auto self = static_cast<std::uint64_t>(rank);
  for (const auto& [name, value] : job::ToVariables({.source = "paceline",
                                   .rank = Rank(self),
                                   .world = world,
                                   .local_rank = self,
                                   .local_world = world,
                                   .coordinator = rendezvous_->endpoint().ToString()})) {
    server->environment[name] = value;
  }
  server->environment["PACELINE_SECRET"] = secret_.ToHex();
  server->environment["PACELINE_COORDINATOR_RUNS"] = "yes";
}

void ScalingHarness::AddPeerGroup(int rank, StepServerOptions* server) const {
  server->argv.emplace_back("--init");
  server->argv.push_back("file://" + (folder_->path() / "meeting").string());
  server->environment["RANK"] = std::to_string(rank);
  server->environment["WORLD_SIZE"] = std::to_string(options_.config.workers);
  // gloo asks for the address of the host's name, which need not have one.
  server->environment["GLOO_SOCKET_IFNAME"] = "lo";
}

Status ScalingHarness::Turn(Team* team, int steps) {
  PACELINE_ASSIGN(TeamTiming timing, team->servers->Run(steps, stop_));
  TeamRuns& runs = RunsOf(*team, &results_);
  runs.samples = timing.samples;
  runs.last_loss = timing.loss;
  runs.rank_seconds.push_back(std::move(timing.seconds));
  runs.step_seconds.push_back(std::move(timing.step_seconds));
  return {};
}

Status ScalingHarness::Round(int round) {
  for (std::size_t turn = 0; turn < teams_.size(); ++turn) {
    Team& team = teams_[round % 2 == 0 ? turn : teams_.size() - 1 - turn];
    if (team.servers) PACELINE_TRY(Turn(&team, options_.config.steps));
  }
  std::string line = fmt::format("round {}/{}", round + 1, options_.config.rounds);
  for (const Team& team : teams_) {
    if (!team.servers) continue;
    line += fmt::format("  {} {} {:.1f}", results_.systems[team.system].info.name,
                        ModeName(team, results_), RunsOf(team, &results_).Rates().back());
  }
  progress_(line + " samples/s");
  return stop_.stop_requested() ? Status::Error(Code::kAborted, "stopped") : Status();
}

Status ScalingHarness::QuitAll() {
  for (Team& team : teams_) {
    if (!team.servers) continue;
    PACELINE_ASSIGN(RunsOf(team, &results_).max_rss_bytes, team.servers->Quit(stop_));
    team.servers.reset();
  }
  return {};
}

}  // namespace

std::vector<std::vector<int>> ScalingCpus(const ScalingConfig& config,
                                          const job::AvailableCpus& available) {
  const job::Placement placement =
      job::PlanPlacement({.available = available,
                          .workers = static_cast<std::uint64_t>(std::max(1, config.workers)),
                          .threads_per_worker = config.threads});
  const auto threads = static_cast<std::size_t>(std::max(1, config.threads));
  std::vector<std::vector<int>> cpus;
  for (const job::WorkerPlacement& worker : placement.workers) {
    if (worker.cpus.size() < threads) return {};
    // The same for every worker, whatever is left over.
    cpus.emplace_back(worker.cpus.begin(),
                      worker.cpus.begin() + static_cast<std::ptrdiff_t>(threads));
  }
  return cpus;
}

Status Validate(const ScalingOptions& options) {
  constexpr int kMaxWorkers = 1024;
  const ScalingConfig& config = options.config;
  if (config.workers < 2 || config.workers > kMaxWorkers) {
    return InvalidScaling(
        fmt::format("--workers {}: two to {} can cooperate", config.workers, kMaxWorkers));
  }
  if (config.batch < 2)
    return InvalidScaling(fmt::format("batch size {} is below 2", config.batch));
  if (config.rounds < 1) return InvalidScaling("rounds must be at least 1");
  if (config.steps < 1) return InvalidScaling("steps must be at least 1");
  if (config.warmup_steps < 0) return InvalidScaling("warm-up steps must not be negative");
  if (config.threads < 1) return InvalidScaling("threads must be at least 1");
  if (!config.cpus.empty() && config.cpus.size() != static_cast<std::size_t>(config.workers)) {
    return InvalidScaling(
        fmt::format("CPUs for {} of {} workers", config.cpus.size(), config.workers));
  }
  if (options.worker.empty()) return InvalidScaling("no worker program given");
  if (options.peer.empty()) return {};
  std::error_code error;
  const std::string script = PeerScript(options).string();
  const bool plain = (options.peer + options.peer_family).find('/') == std::string::npos;
  if (!plain || !std::filesystem::exists(script, error)) {
    return InvalidScaling(fmt::format("unknown peer {}: there is no {}", options.peer, script));
  }
  return {};
}

ScalingOutcome RunScaling(const ScalingOptions& options, const job::Machine& machine,
                          const Provenance& provenance, const Progress& progress,
                          std::stop_token stop) {
  ScalingOutcome outcome;
  outcome.results.provenance = provenance;
  outcome.results.machine = machine;
  outcome.results.config = options.config;
  outcome.status = Validate(options);
  if (outcome.status.ok()) {
    outcome.status = ScalingHarness(options, progress, std::move(stop), &outcome.results).Run();
  }
  outcome.results.partial = !outcome.status.ok();
  outcome.results.failure = outcome.status.message();
  return outcome;
}

}  // namespace paceline::bench

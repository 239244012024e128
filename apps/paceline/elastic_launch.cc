#include "paceline/elastic_launch.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/command.h"
#include "disk/run_lock.h"
#include "job/audit.h"
#include "job/chaos.h"
#include "job/elastic_launcher.h"
#include "job/launch_environment.h"
#include "job/placement.h"
#include "job/worker_environment.h"
#include "net/secret.h"
#include "paceline/local_launch.h"

namespace paceline::cli {

namespace {

// A cut is done by the worker itself, when it gets there: the next one that lies ahead.
std::string CutFault(const std::vector<job::ChaosEvent>& chaos, std::uint64_t slot,
                     std::uint64_t steps_done) {
  for (const job::ChaosEvent& event : chaos) {
    if (event.kind == job::ChaosKind::kCut && event.worker == slot && event.step > steps_done) {
      return fmt::format("cut:step={},ms={}", event.step, event.duration.count());
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> CoordinatorCommand(const job::TrainConfig& config, bool restarted) {
  std::vector<std::string> argv{
      ExecutableDirectory() + "/paceline",
      "coordinator",
      config.run,
      "--workers",
      fmt::format("{}:{}", config.min_workers, std::min(config.workers, config.shards)),
      "--shards",
      std::to_string(config.shards),
      "--start-workers",
      std::to_string(config.start_workers),
      "--heartbeat",
      fmt::format("{}", config.heartbeat),
      "--dead-timeout",
      fmt::format("{}", config.dead_timeout),
      "--elastic-timeout",
      fmt::format("{}", config.elastic_timeout)};
  if (!config.store.empty()) argv.insert(argv.end(), {"--store", config.store});
  if (!restarted) argv.emplace_back("--new-workers");
  return argv;
}

Status AuditAfterChaos(const std::string& run) {
  PACELINE_ASSIGN(const job::LoadedRun loaded, job::LoadRun(run));
  PACELINE_ASSIGN(const job::AuditReport audit, job::Audit(loaded));
  if (!audit.ok()) {
    return Status::Error(Code::kBadData,
                         fmt::format("after the chaos the audit finds {} violation(s); see "
                                     "`paceline audit {}`",
                                     audit.violations.count(), run));
  }
  fmt::print(stderr, "paceline train: after the chaos: audit: exactly once: OK\n");
  return {};
}

Result<int> LaunchElastic(const job::TrainConfig& config, const std::vector<std::string>& worker) {
  PACELINE_TRY(PrepareRunDirectory(config));
  PACELINE_ASSIGN(const disk::RunLock lock, disk::RunLock::Acquire(config.run, SystemClock()));
  const auto slots = static_cast<std::uint64_t>(config.workers);
  PACELINE_ASSIGN(const auto chaos, job::ParseChaos(config.chaos, slots, PlannedSteps(config)));
  PACELINE_ASSIGN(const net::Secret secret, net::Secret::Generate());
  PACELINE_ASSIGN(const job::Placement placement, PlaceWorkers(config, slots));
  std::map<std::string, std::string> environment = job::WorkerEnvironment(::getenv);
  environment["PACELINE_SECRET"] = secret.ToHex();

  job::ElasticLaunchOptions options{
      .run = config.run,
      .start_workers = static_cast<std::uint64_t>(config.start_workers),
      .slots = slots,
      .restarts = config.restarts,
      .quiet = config.quiet,
      .chaos = chaos};
  options.coordinator = [&](bool restarted) {
    return job::ChildSpec{.argv = CoordinatorCommand(config, restarted),
                          .environment = environment,
                          .label = "coordinator",
                          .rank = Rank(slots)};
  };
  options.worker = [&](std::uint64_t slot, const std::string& endpoint, std::uint64_t steps_done) {
    job::ChildSpec child{.argv = worker,
                         .environment = environment,
                         .cpus = placement.workers[slot].cpus,
                         .label = fmt::format("w{}", slot),
                         .rank = Rank(slot),
                         .local_rank = slot,
                         .plain_stdout = true};
    child.argv.insert(child.argv.end(),
                      {"--threads", std::to_string(placement.workers[slot].threads)});
    const job::LaunchEnvironment place{.source = "paceline",
                                       .rank = Rank(slot),
                                       .world = slots,
                                       .local_rank = slot,
                                       .local_world = slots,
                                       .coordinator = endpoint};
    for (const auto& [name, value] : job::ToVariables(place)) child.environment[name] = value;
    const std::string cut = CutFault(chaos, slot, steps_done);
    if (!cut.empty()) child.environment["PACELINE_FAULTS"] = cut;
    return child;
  };
  auto code = job::RunElasticLauncher(options);
  if (code.ok() && *code == 0 && !chaos.empty()) PACELINE_TRY(AuditAfterChaos(config.run));
  return code;
}

}  // namespace paceline::cli

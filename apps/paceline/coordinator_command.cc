#include <cstdlib>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "job/coordinator_run.h"
#include "job/group.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

Status Coordinate(const job::TrainConfig& rules, job::CoordinatorRunOptions options) {
  PACELINE_ASSIGN(const auto secret, job::ReadSecret(::getenv));
  if (secret) options.secret = *secret;
  const std::uint64_t lease_samples = options.membership.lease_samples;
  options.membership = job::ElasticRules(rules);
  options.membership.lease_samples = lease_samples;
  job::InstallStopSignals();
  options.stopped = [] { return job::StopRequested() != 0; };
  PACELINE_TRY(job::RunDirectory(options.run).Create());  // where the log goes
  SetLogFile(options.run + "/coordinator.txt");
  return job::RunCoordinator(options, SystemClock());
}

}  // namespace

int RunCoordinator(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Coordinate an elastic run: decides which workers train together, and goes on where it was "
      "when it is started again. `paceline train --workers MIN:MAX` starts one by itself; start it "
      "by hand where something else starts the workers (docs/elastic.md). Workers find it through "
      "PACELINE_COORDINATOR; the secret comes from PACELINE_SECRET_FILE.",
      "paceline coordinator");
  app.option_defaults()->always_capture_default();
  job::TrainConfig rules{.min_workers = 1};
  job::CoordinatorRunOptions options{.shards = 0};
  std::string workers = "1:4";
  app.add_option("run", options.run, "Run directory, for its records and its state")->required();
  app.add_option("--workers", workers, "MIN:MAX");
  app.add_option("--start-workers", rules.start_workers, "Begin with so many (default: MAX)");
  app.add_option("--shards", options.shards, "Virtual shards of the run (default: MAX)");
  app.add_option("--bind", options.bind,
                 "HOST:PORT to listen on (default: as before, or loopback and any port)");
  app.add_option("--store", options.store,
                 "file:PATH or etcd://HOST:PORT (default: coordinator.log in the run directory)");
  app.add_option("--heartbeat", rules.heartbeat, "Seconds between signs of life");
  app.add_option("--dead-timeout", rules.dead_timeout, "Seconds until a silent worker is given up");
  app.add_option("--elastic-timeout", rules.elastic_timeout,
                 "Seconds to wait with fewer than MIN workers; then exit 14");
  app.add_option(
      "--lease-samples", options.membership.lease_samples,
      "Workers do not step together (--strategy ps): lend them so many samples at a time");
  app.add_flag("--new-workers", options.new_workers,
               "Do not wait for the workers of the last view: they are gone");
  app.footer(
      "Exit codes: 0 training complete, 11 secret, 14 too few workers, 18 somebody else "
      "coordinates this run; docs/errors.md explains each.");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  Status set = rules.SetWorkers(workers);
  if (set.ok() && !rules.Elastic()) {
    set = Status::Error(Code::kInvalidArgument, "--workers takes MIN:MAX");
  }
  if (!set.ok()) return Fail(app.get_name(), set);
  if (options.shards == 0) options.shards = static_cast<std::uint64_t>(rules.workers);
  rules.shards = static_cast<std::int64_t>(options.shards);
  if (rules.start_workers == 0) rules.start_workers = rules.workers;
  const Status ended = Coordinate(rules, options);
  return ended.ok() ? 0 : Fail(app.get_name(), ended);
}

}  // namespace paceline::cli

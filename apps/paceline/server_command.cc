#include <cstdlib>
#include <stop_token>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "job/group.h"
#include "job/server_run.h"
#include "job/stop_signal.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

Status Serve(job::ServerRunOptions options, const std::string& wal) {
  PACELINE_ASSIGN(options.wal, ps::ParseWal(wal));
  if (options.servers == 0 || options.index >= options.servers) {
    return Status::Error(Code::kInvalidArgument, "--index counts from 0 and is below --servers");
  }
  PACELINE_ASSIGN(const auto secret, job::ReadSecret(::getenv));
  if (secret) options.secret = *secret;
  const std::stop_source stop;
  const job::StopWatcher watcher(stop);
  options.stopped = [&] { return stop.stop_requested(); };
  return job::RunServer(options, SystemClock());
}

}  // namespace

int RunServer(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Keep parameters for trainers. `paceline train --strategy ps` starts its servers by itself; "
      "start one by hand where something else starts the processes "
      "(docs/parameter-server.md). Trainers find servers through PACELINE_SERVERS; the secret "
      "comes from PACELINE_SECRET_FILE. SIGTERM ends it after a snapshot.",
      "paceline server");
  app.option_defaults()->always_capture_default();
  job::ServerRunOptions options;
  std::string wal = "group";
  std::int64_t group_ms = options.group.count(), hot_mb = 256;
  app.add_option("--run", options.run, "Run directory; the server's files go to RUN/servers")
      ->required();
  app.add_option("--index", options.index, "Which of the servers this is, from 0");
  app.add_option("--servers", options.servers, "Servers of the run");
  app.add_option("--bind", options.bind,
                 "HOST:PORT to listen on (default: as before, or loopback and any port)");
  app.add_option("--wal", wal,
                 "What is on disk before a push is acknowledged: always, group (pushes of some "
                 "milliseconds together), off (only snapshots: pushes are lost with the process)");
  app.add_option("--wal-group-ms", group_ms, "How long pushes are gathered");
  app.add_option("--table-store", options.table_store, "memory, or rocksdb for tables beyond it");
  app.add_option("--table-memory-mb", hot_mb, "Hot rows of each table on rocksdb");
  app.add_option("--load-from", options.load_from,
                 "Folders of all servers of an earlier run to begin with, whatever their number");
  app.footer(
      "Exit codes: 0 stopped, 10 another job, 11 secret, 13 damaged log, 16 disk; "
      "docs/errors.md explains each.");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  options.group = std::chrono::milliseconds(group_ms);
  options.hot_bytes = static_cast<std::size_t>(hot_mb) << 20;
  const Status ended = Serve(options, wal);
  return ended.ok() ? 0 : Fail(app.get_name(), ended);
}

}  // namespace paceline::cli

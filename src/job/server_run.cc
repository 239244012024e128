#include "job/server_run.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json_writer.h"
#include "base/log.h"
#include "base/resident_memory.h"
#include "disk/file_system.h"
#include "disk/run_lock.h"
#include "job/run_dir.h"
#include "job/server_folders.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "ps/server.h"
#include "ps/snapshot_writer.h"

namespace paceline::job {

namespace {

constexpr std::chrono::milliseconds kPause(20), kBetweenReports(1000);

Result<net::Endpoint> ChooseBind(const ServerRunOptions& options) {
  if (!options.bind.empty()) return net::ParseEndpoint(options.bind);
  std::ifstream file(ServerStatusFile(options.run, options.index));
  if (!file) return net::Endpoint{};
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("endpoint") || !json["endpoint"].is_string()) {
    return net::Endpoint{};
  }
  return net::ParseEndpoint(json["endpoint"].get<std::string>());
}

// What was applied, for the audit: finished below, and [lease, batches, finished] behind.
std::string LeasesText(const ps::PushLedger& ledger) {
  std::string text;
  for (const auto& [lease, progress] : ledger.open()) {
    text += fmt::format("{}[{},{},{}]", text.empty() ? "" : ",", lease, progress.next,
                        progress.finished ? 1 : 0);
  }
  return "[" + text + "]";
}

std::string TablesText(const std::vector<ps::TableStatus>& tables) {
  std::vector<std::string> texts;
  texts.reserve(tables.size());
  for (const ps::TableStatus& table : tables) {
    texts.push_back(JsonObject()
                        .Add("name", table.name)
                        .Add("rows", table.rows)
                        .Add("waiting", table.waiting)
                        .Add("evicted", table.evicted)
                        .Text());
  }
  return fmt::format("[{}]", fmt::join(texts, ","));
}

// What server-I.json says, again and again.
struct Report {
  const ServerRunOptions& options;
  const Clock& clock;
  net::Endpoint endpoint;
  double recovery_seconds = 0;

  // `last`: nothing is applied after it.
  Status Write(const ps::ServerStatus& status, bool last) const {
    return WriteTextFile(
        ServerStatusFile(options.run, options.index),
        JsonObject()
                .Add("unix", clock.UnixSeconds())
                .Add("endpoint", endpoint.ToString())
                .Add("pid", ::getpid())
                .Add("index", options.index)
                .Add("servers", options.servers)
                .Add("initialised", status.initialised)
                .Add("version", status.version)
                .Add("pushes", status.pushes)
                .Add("duplicates", status.duplicates)
                .Add("rows", status.rows)
                .AddRaw("tables", TablesText(status.tables))
                .Add("dense_floats", status.dense_floats)
                .Add("table_bytes", status.table_bytes)
                .Add("dense_bytes", status.dense_bytes)
                .Add("waiting_bytes", status.waiting_bytes)
                .Add("rss_bytes", ResidentBytes())
                .Add("log_bytes", status.log_bytes)
                .Add("snapshots", status.snapshots)
                .Add("recovery_seconds", recovery_seconds)
                .AddRaw("staleness", fmt::format("[{}]", fmt::join(status.staleness.counts, ",")))
                .Add("finished_below", status.ledger.finished_below())
                .AddRaw("leases", LeasesText(status.ledger))
                .Add("last", last)
                .Text() +
            "\n");
  }
};

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? disk::DiskError("mkdir", path, error.value()) : Status();
}

void TellRecovery(const ps::ServerRecovery& recovery, double seconds) {
  for (const std::string& damaged : recovery.damaged) PACELINE_LOG(Warning, "{}", damaged);
  if (!recovery.snapshot && recovery.replayed == 0) return;
  fmt::print(stderr,
             "recovered in {:.3f} s: {} and {} pushes of the log; {} bytes were never "
             "acknowledged\n",
             seconds, recovery.snapshot ? "a snapshot" : "no snapshot", recovery.replayed,
             recovery.torn_bytes);
}

}  // namespace

Status RunServer(const ServerRunOptions& options, const Clock& clock) {
  const std::string folder = ServerFolder(options.run, options.index);
  PACELINE_TRY(MakeFolder(folder));
  PACELINE_ASSIGN(const disk::RunLock lock, disk::RunLock::Acquire(folder, clock));
  disk::PosixFileSystem files;
  net::Loop loop;  // outlives the core, whose acknowledgements go through its connections
  // Loading ends with a snapshot, and whoever starts this server again says the same again.
  PACELINE_ASSIGN(const auto snapshots, ps::ListSnapshots(files, folder));
  const auto load_from = snapshots.empty() ? options.load_from : std::vector<std::string>();
  const Instant began = clock.Now();
  PACELINE_ASSIGN(const auto core, ps::ServerCore::Open({.file_system = &files,
                                                         .folder = folder,
                                                         .index = options.index,
                                                         .servers = options.servers,
                                                         .wal = options.wal,
                                                         .group = options.group,
                                                         .load_from = load_from,
                                                         .table_store = options.table_store,
                                                         .hot_bytes = options.hot_bytes}));
  const double recovery_seconds = ToSeconds(clock.Now() - began);
  TellRecovery(core->recovery(), recovery_seconds);
  PACELINE_ASSIGN(const net::Endpoint bind, ChooseBind(options));
  PACELINE_ASSIGN(
      auto server,
      ps::Server::Start(loop, *core,
                        {.bind = bind, .secret = options.secret, .index = options.index}));
  const Report report{.options = options,
                      .clock = clock,
                      .endpoint = server->endpoint(),
                      .recovery_seconds = recovery_seconds};
  auto next_report = std::chrono::steady_clock::now();
  while (!options.stopped()) {
    if (std::chrono::steady_clock::now() >= next_report) {
      PACELINE_TRY(report.Write(core->StatusNow(), /*last=*/false));
      next_report = std::chrono::steady_clock::now() + kBetweenReports;
    }
    if (core->WantsSnapshot()) PACELINE_TRY(core->Snapshot());
    std::this_thread::sleep_for(kPause);
  }
  server.reset();  // no push comes in between
  if (core->StatusNow().configured) PACELINE_TRY(core->Snapshot());
  return report.Write(core->StatusNow(), /*last=*/true);
}

}  // namespace paceline::job

#include "bench/table_perf.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/resident_memory.h"
#include "base/rng.h"
#include "base/text_table.h"
#include "bench/private_folder.h"
#include "bench/summary.h"
#include "disk/file_system.h"
#include "ps/push_message.h"
#include "ps/row_optimizer.h"
#include "ps/server_core.h"
#include "ps/snapshot_writer.h"

namespace paceline::bench {

namespace {

using SortedJson = nlohmann::json;

constexpr std::size_t kMadeAtOnce = 10'000;
constexpr double kMega = 1e-6;

double ElapsedSince(Instant start) { return ToSeconds(SystemClock().Now() - start); }

// A server in this process.
class GrowingTable {
 public:
  static Result<GrowingTable> Open(const TablePerfConfig& config, const std::string& folder) {
    PACELINE_ASSIGN(const auto optimizer, ps::ParseRowOptimizer(config.optimizer));
    ps::JobSpec job{.fingerprint = "perf", .apply = ps::Apply::kAtOnce};
    ps::TableOptions options{.name = "rows",
                             .dim = static_cast<std::size_t>(config.dim),
                             .seed = 1,
                             .init_range = 0.01F};
    options.optimizer.kind = optimizer;
    job.tables.push_back({.options = std::move(options)});
    GrowingTable table(config, folder, std::move(job));
    PACELINE_TRY(table.Begin());
    return table;
  }

  // Only a push makes a row.
  Status GrowTo(std::int64_t rows) {
    std::vector<std::int64_t> ids;
    while (rows_ < rows) {
      ids.resize(std::min(kMadeAtOnce, static_cast<std::size_t>(rows - rows_)));
      std::iota(ids.begin(), ids.end(), rows_);
      PACELINE_TRY(PushTo(ids).status());
      rows_ += static_cast<std::int64_t>(ids.size());
    }
    return {};
  }

  // Seconds; ids are spread over the first `range` rows.
  Result<double> Push(std::int64_t range) {
    const auto count = static_cast<std::size_t>(config_.ids);
    const auto part = static_cast<std::uint32_t>(range / config_.ids);
    std::vector<std::int64_t> ids(count);
    CounterRng rng(1, Purpose::kTest, batch_, static_cast<std::uint64_t>(range));
    for (std::size_t i = 0; i < count; ++i) {
      ids[i] = static_cast<std::int64_t>(i) * part + rng.Below(part);
    }
    return PushTo(ids);
  }

  Status Measure(TablePoint& point) {
    std::vector<double> anywhere, same;
    for (int i = 0; i < config_.pushes; ++i) {  // in turns
      PACELINE_ASSIGN(anywhere.emplace_back(), Push(rows_));
      PACELINE_ASSIGN(same.emplace_back(), Push(config_.rows.front()));
    }
    point.push_anywhere = paceline::Summarize(anywhere);
    point.push_same = paceline::Summarize(same);
    point.table_bytes = static_cast<std::int64_t>(core_->StatusNow().table_bytes);
    return {};
  }

  // Ends the server and lets another one begin with its snapshot.
  Status SaveAndLoad(TablePoint& point) {
    PACELINE_ASSIGN(const std::vector<float> before, SomeRows());
    Instant start = SystemClock().Now();
    PACELINE_TRY(core_->Snapshot());
    point.snapshot_seconds = ElapsedSince(start);
    PACELINE_ASSIGN(const auto snapshots, ps::ListSnapshots(*file_system_, folder_));
    PACELINE_ASSIGN(const auto bytes,
                    file_system_->Size(ps::SnapshotPath(folder_, snapshots.back())));
    point.snapshot_bytes = static_cast<std::int64_t>(bytes);
    core_.reset();
    ::malloc_trim(0);
    start = SystemClock().Now();
    PACELINE_TRY(Begin());
    point.load_seconds = ElapsedSince(start);
    PACELINE_ASSIGN(const std::vector<float> after, SomeRows());
    if (core_->StatusNow().rows != static_cast<std::uint64_t>(rows_) || before != after) {
      return Status::Error(Code::kInternal,
                           "a server differs from the snapshot that it began with");
    }
    return {};
  }

 private:
  Result<double> PushTo(const std::vector<std::int64_t>& ids) {
    const std::vector<float> gradients(ids.size() * static_cast<std::size_t>(config_.dim), 0.01F);
    ps::Push push{.batch = batch_++, .learning_rate = 0.1F};
    push.tables.push_back({.table = 0,
                           .dim = static_cast<std::uint32_t>(config_.dim),
                           .ids = ids,
                           .values = gradients});
    const ps::MessageBytes message = ps::EncodePush(push);
    const Instant start = SystemClock().Now();
    PACELINE_TRY(core_->Push(ps::AsBytes(message)).status());
    return ElapsedSince(start);
  }

  GrowingTable(const TablePerfConfig& config, std::string folder, ps::JobSpec job)
      : config_(config),
        folder_(std::move(folder)),
        job_(std::move(job)),
        file_system_(std::make_unique<disk::PosixFileSystem>()) {}

  Status Begin() {
    PACELINE_ASSIGN(core_, ps::ServerCore::Open({.file_system = file_system_.get(),
                                                 .folder = folder_,
                                                 .wal = ps::Wal::kOff,
                                                 .table_store = config_.table_store}));
    return core_->Configure(job_);
  }

  Result<std::vector<float>> SomeRows() {
    std::vector<std::int64_t> ids(
        std::min<std::size_t>(kMadeAtOnce, static_cast<std::size_t>(rows_)));
    const std::int64_t distance = rows_ / static_cast<std::int64_t>(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) * distance;
    std::vector<float> values(ids.size() * static_cast<std::size_t>(config_.dim));
    PACELINE_TRY(
        core_->Pull({.touch = ps::Touch::kPeek, .rows = {{0, ids, values}}}, nullptr).status());
    return values;
  }

  const TablePerfConfig& config_;
  std::string folder_;
  ps::JobSpec job_;
  std::unique_ptr<disk::PosixFileSystem> file_system_;
  std::unique_ptr<ps::ServerCore> core_;
  std::int64_t rows_ = 0;
  std::uint64_t batch_ = 0;
};

Result<std::int64_t> PayloadOfRow(const TablePerfConfig& config) {
  PACELINE_ASSIGN(const auto kind, ps::ParseRowOptimizer(config.optimizer));
  const auto dim = static_cast<std::size_t>(config.dim);
  return static_cast<std::int64_t>(sizeof(std::int64_t) +
                                   sizeof(float) * (dim + ps::StateFloats(kind, dim)));
}

SortedJson SummaryJson(const Summary& summary) {
  return {{"median", summary.median}, {"mad", summary.mad}};
}

SortedJson PointJson(const TablePoint& point) {
  return {{"rows", point.rows},
          {"make_seconds", point.make_seconds},
          {"payload_bytes", point.payload_bytes},
          {"value_bytes", point.value_bytes},
          {"table_bytes", point.table_bytes},
          {"resident_bytes", point.resident_bytes},
          {"push_anywhere", SummaryJson(point.push_anywhere)},
          {"push_same", SummaryJson(point.push_same)},
          {"snapshot_seconds", point.snapshot_seconds},
          {"snapshot_bytes", point.snapshot_bytes},
          {"load_seconds", point.load_seconds}};
}

std::string Microseconds(const Summary& summary) {
  return fmt::format("{:.0f} ± {:.0f}", summary.median * 1e6, summary.mad * 1e6);
}

}  // namespace

Status Validate(const TablePerfConfig& config) {
  const auto wrong = [](const char* what) { return Status::Error(Code::kInvalidArgument, what); };
  if (config.dim < 1 || config.dim > 4096) return wrong("--dim is 1 to 4096");
  if (config.ids < 1 || config.pushes < 1) return wrong("--ids and --pushes are 1 or more");
  if (config.rows.empty() || config.rows.front() < config.ids) {
    return wrong("--rows has sizes, and a push needs --ids of them");
  }
  if (!std::ranges::is_sorted(config.rows, std::less_equal<>()) ||
      config.rows.back() > INT64_C(0xFFFFFFFF)) {
    return wrong("--rows are rising sizes up to 4294967295");
  }
  return PayloadOfRow(config).status();
}

Status RunTablePerf(const Progress& progress, const std::stop_token& stop,
                    TablePerfResults& results) {
  const TablePerfConfig& config = results.config;
  PACELINE_TRY(Validate(config));
  PACELINE_ASSIGN(const std::int64_t payload, PayloadOfRow(config));
  PACELINE_ASSIGN(const PrivateFolder own, PrivateFolder::Make(config.folder));
  const std::uint64_t resident_before = ResidentBytes();
  PACELINE_ASSIGN(GrowingTable table, GrowingTable::Open(config, own.path().string()));
  for (const std::int64_t rows : config.rows) {
    if (stop.stop_requested()) return Status::Error(Code::kAborted, "stopped");
    TablePoint point{.rows = rows,
                     .payload_bytes = payload * rows,
                     .value_bytes = static_cast<std::int64_t>(sizeof(float)) * config.dim * rows};
    const Instant start = SystemClock().Now();
    PACELINE_TRY(table.GrowTo(rows));
    point.make_seconds = ElapsedSince(start);
    point.resident_bytes = static_cast<std::int64_t>(ResidentBytes() - resident_before);
    PACELINE_TRY(table.Measure(point));
    PACELINE_TRY(table.SaveAndLoad(point));
    results.points.push_back(point);
    progress(fmt::format("{} rows", rows));
  }
  return {};
}

std::string ToJson(const TablePerfResults& results, JsonStyle style) {
  SortedJson points = SortedJson::array();
  for (const TablePoint& point : results.points) points.push_back(PointJson(point));
  const TablePerfConfig& config = results.config;
  const SortedJson root{{"version", PACELINE_VERSION},
                        {"name", "perf table"},
                        {"start_unix", results.provenance.started_unix},
                        {"args", results.provenance.command_line},
                        {"commit", results.provenance.commit},
                        {"dirty", results.provenance.dirty},
                        {"machine", SortedJson::parse(results.machine.Json().Text())},
                        {"config",
                         {{"rows", config.rows},
                          {"dim", config.dim},
                          {"optimizer", config.optimizer},
                          {"ids", config.ids},
                          {"pushes", config.pushes},
                          {"table_store", config.table_store}}},
                        {"warnings", MachineWarnings(results.machine)},
                        {"points", std::move(points)}};
  return root.dump(style == JsonStyle::kIndented ? 1 : -1, ' ', false,
                   SortedJson::error_handler_t::replace);
}

std::string TablePerfTable(const TablePerfResults& results) {
  std::vector<std::vector<std::string>> rows{
      {"rows", "made, s", "table, MB", "resident, MB", "of payload", "of values", "push, us",
       "push to the first, us", "snapshot, s", "snapshot, MB", "load, s"}};
  for (const TablePoint& point : results.points) {
    const auto resident = static_cast<double>(point.resident_bytes);
    rows.push_back({std::to_string(point.rows), fmt::format("{:.1f}", point.make_seconds),
                    fmt::format("{:.0f}", static_cast<double>(point.table_bytes) * kMega),
                    fmt::format("{:.0f}", resident * kMega),
                    fmt::format("{:.2f}", resident / static_cast<double>(point.payload_bytes)),
                    fmt::format("{:.2f}", resident / static_cast<double>(point.value_bytes)),
                    Microseconds(point.push_anywhere), Microseconds(point.push_same),
                    fmt::format("{:.1f}", point.snapshot_seconds),
                    fmt::format("{:.0f}", static_cast<double>(point.snapshot_bytes) * kMega),
                    fmt::format("{:.1f}", point.load_seconds)});
  }
  std::string text = AlignColumns(rows, "");
  text += fmt::format(
      "\n{} floats a row, {}; {} pushes of {} rows, medians ± MAD, in turns anywhere and to the "
      "first {} rows; payload: id, values and what the optimiser remembers\n",
      results.config.dim, results.config.optimizer, results.config.pushes, results.config.ids,
      results.config.rows.front());
  for (const std::string& warning : MachineWarnings(results.machine)) {
    text += "warning: " + warning + "\n";
  }
  return text;
}

}  // namespace paceline::bench

#include "bench/perf_run.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/stats.h"
#include "bench/private_folder.h"

namespace paceline::bench {

namespace {

Status InvalidPerf(std::string message) {
  return Status::Error(Code::kInvalidArgument, std::move(message));
}

Status DiskError(const std::filesystem::path& path, const std::string& why) {
  return Status::Error(Code::kDisk, fmt::format("cannot make {}: {}", path.string(), why));
}

std::vector<std::string> SplitWords(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

PerfProcess PlanRank(const PerfRunOptions& options, const std::string& engine, std::size_t rank,
                     const std::filesystem::path& folder) {
  PerfProcess process;
  const std::size_t host = options.hosts.empty() ? 0 : rank % options.hosts.size();
  if (!options.hosts.empty()) {
    for (const std::string& word : SplitWords(options.rank_prefix)) {
      process.argv.push_back(Replace(word, "{host}", options.hosts[host]));
    }
    process.environment["PACELINE_ADDRESS"] = options.addresses[host];
  }
  for (const std::string& word : {options.rank_program, std::string("--engine"), engine}) {
    process.argv.push_back(word);
  }
  process.environment["PACELINE_RANK"] = std::to_string(rank);
  process.environment["PACELINE_WORLD"] = std::to_string(options.config.workers);
  process.environment["PACELINE_PERF_MEETING"] = folder.string();
  process.log = options.out_dir / "logs" / fmt::format("{}-{}.log", engine, rank);
  // As our launcher and mpirun do with their ranks. gloo's own thread wants a core besides.
  if (engine != "gloo" && options.config.workers <= options.cores)
    process.cpus = {static_cast<int>(rank)};
  return process;
}

// mpirun itself runs on the first host, and reaches the others through the agent.
std::vector<std::string> MpirunAcrossHosts(const PerfRunOptions& options) {
  std::vector<std::string> argv = SplitWords(options.remote_agent);
  const std::size_t workers = static_cast<std::size_t>(options.config.workers);
  const std::size_t hosts = std::min(options.hosts.size(), workers);
  std::vector<std::string> slots;
  for (std::size_t i = 0; i < hosts; ++i) {
    slots.push_back(fmt::format("{}:{}", options.addresses[i], (workers + hosts - 1) / hosts));
  }
  argv.push_back(options.addresses[0]);
  for (const std::string& word :
       {options.mpirun, std::string("--host"), fmt::format("{}", fmt::join(slots, ",")),
        std::string("--map-by node --mca plm_rsh_agent"), fmt::format("'{}'", options.remote_agent),
        std::string("-x PACELINE_PERF_CONTROL")}) {
    argv.push_back(word);
  }
  return argv;
}

PerfProcess PlanMpi(const PerfRunOptions& options, const std::filesystem::path& folder) {
  PerfProcess process;
  process.argv =
      options.hosts.empty() ? std::vector<std::string>{options.mpirun} : MpirunAcrossHosts(options);
  for (const std::string& word :
       {std::string("--allow-run-as-root"), std::string("--oversubscribe"), std::string("-np"),
        std::to_string(options.config.workers),
        // Its files go where they are removed whatever ends it.
        std::string("--mca"), std::string("orte_tmpdir_base"), folder.string()}) {
    process.argv.push_back(word);
  }
  if (options.config.workers > options.cores) {
    for (const char* word : {"--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"}) {
      process.argv.emplace_back(word);
    }
  }
  for (const std::string& word :
       {options.rank_program, std::string("--engine"), std::string("mpi")}) {
    process.argv.push_back(word);
  }
  process.log = options.out_dir / "logs" / "mpi.log";
  return process;
}

// One run of the benchmark.
class PerfHarness {
 public:
  PerfHarness(const PerfRunOptions& options, const Progress& progress, std::stop_token stop,
              PerfResults* results)
      : options_(options), progress_(progress), stop_(std::move(stop)), results_(*results) {}
  Status Run();

 private:
  Status StartAll(const std::filesystem::path& folder);
  Status RunSize(std::size_t bytes);
  Status Round(int round, std::size_t bytes);
  Status QuitAll();

  const PerfRunOptions& options_;
  const Progress& progress_;
  const std::stop_token stop_;
  PerfResults& results_;
  std::vector<std::optional<PerfGroup>> groups_;  // per engine; none: not available
};

Status PerfHarness::Run() {
  std::error_code error;
  std::filesystem::create_directories(options_.out_dir / "logs", error);
  if (error) return DiskError(options_.out_dir, error.message());
  PACELINE_ASSIGN(const std::vector<std::size_t> sizes, ListSizes(options_.config.sizes));
  PACELINE_ASSIGN(const PrivateFolder folder, PrivateFolder::Make());
  PACELINE_TRY(StartAll(folder.path()));
  for (const std::size_t size : sizes) PACELINE_TRY(RunSize(size));
  return QuitAll();
}

Status PerfHarness::StartAll(const std::filesystem::path& folder) {
  for (const std::string& name : options_.engines) {
    EngineResults& engine = results_.engines.emplace_back(EngineResults{.name = name});
    std::optional<PerfGroup>& group = groups_.emplace_back();
    const std::filesystem::path own = folder / name;
    std::error_code error;
    std::filesystem::create_directory(own, error);
    if (error) return DiskError(own, error.message());
    auto started = PerfGroup::Start({.engine = name,
                                     .workers = options_.config.workers,
                                     .processes = PlanProcesses(options_, name, own),
                                     .control = own / "control"},
                                    stop_);
    if (started.ok()) {
      engine.version = started->version();
      group.emplace(std::move(*started));
      progress_(fmt::format("{} {} is ready", name, engine.version));
      continue;
    }
    if (started.status().code() != Code::kUnavailable) return started.status();
    engine.unavailable = started.status().message();
    progress_("not available: " + engine.unavailable);
  }
  if (!ReferenceEngine(results_)) {
    return Status::Error(Code::kUnavailable, "none of the engines is available");
  }
  return {};
}

Status PerfHarness::RunSize(std::size_t bytes) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i]) results_.engines[i].points.push_back({.requested_bytes = bytes});
  }
  for (int round = 0; round < options_.config.rounds; ++round) PACELINE_TRY(Round(round, bytes));
  std::string line = fmt::format("{:>6}", FormatSize(bytes));
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i]) continue;
    const PerfPoint& point = results_.engines[i].points.back();
    line += fmt::format("  {} {:.1f} us {:.2f} GB/s", results_.engines[i].name,
                        paceline::Summarize(point.time_us).median,
                        BusBandwidth(options_.config, point));
  }
  progress_(line);
  return {};
}

Status PerfHarness::Round(int round, std::size_t bytes) {
  for (std::size_t turn = 0; turn < groups_.size(); ++turn) {
    const std::size_t i = round % 2 == 0 ? turn : groups_.size() - 1 - turn;
    if (!groups_[i]) continue;
    PACELINE_ASSIGN(const std::vector<PerfSample> samples,
                    groups_[i]->Run(StepOf(options_.config, bytes), stop_));
    PACELINE_TRY(
        results_.engines[i].points.back().AddRound(samples).Wrap(results_.engines[i].name));
  }
  return stop_.stop_requested() ? Status::Error(Code::kAborted, "stopped") : Status();
}

Status PerfHarness::QuitAll() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i]) continue;
    PACELINE_ASSIGN(results_.engines[i].max_rss_bytes, groups_[i]->Quit(stop_));
  }
  for (const EngineResults& engine : results_.engines) {
    if (const std::int64_t wrong = WrongElements(engine); wrong > 0) {
      return Status::Error(Code::kBadData,
                           fmt::format("{}: {} wrong elements", engine.name, wrong));
    }
  }
  return {};
}

}  // namespace

Status Validate(const PerfRunOptions& options) {
  const PerfConfig& config = options.config;
  constexpr int kMaxWorkers = 256;
  if (config.workers < 1 || config.workers > kMaxWorkers) {
    return InvalidPerf(fmt::format("workers must be between 1 and {}", kMaxWorkers));
  }
  if (config.rounds < 1) return InvalidPerf("rounds must be at least 1");
  if (config.iterations < 0) return InvalidPerf("iterations must not be negative");
  if (config.warmup < 0) return InvalidPerf("warm-up iterations must not be negative");
  PACELINE_TRY(ListSizes(config.sizes).status());
  if (options.engines.empty()) return InvalidPerf("which engines? native, gloo, mpi");
  std::set<std::string> seen;
  for (const std::string& engine : options.engines) {
    if (engine != "native" && engine != "native-tcp" && engine != "gloo" && engine != "mpi") {
      return InvalidPerf(
          fmt::format("unknown engine '{}': native, native-tcp, gloo or mpi", engine));
    }
    if (!seen.insert(engine).second) return InvalidPerf(fmt::format("engine {} twice", engine));
  }
  if (options.hosts.size() != options.addresses.size()) {
    return InvalidPerf(
        fmt::format("{} hosts have {} addresses", options.hosts.size(), options.addresses.size()));
  }
  if (!options.rank_prefix.empty() && options.hosts.empty()) {
    return InvalidPerf("a rank prefix needs hosts: see tools/netns_hosts.sh");
  }
  if (!options.hosts.empty() && seen.contains("mpi") && options.remote_agent.empty()) {
    return InvalidPerf("engine mpi needs an agent to reach several hosts");
  }
  return {};
}

std::vector<PerfProcess> PlanProcesses(const PerfRunOptions& options, const std::string& engine,
                                       const std::filesystem::path& folder) {
  if (engine == "mpi") return {PlanMpi(options, folder)};
  std::vector<PerfProcess> processes;
  processes.reserve(static_cast<std::size_t>(options.config.workers));
  for (int rank = 0; rank < options.config.workers; ++rank) {
    processes.push_back(PlanRank(options, engine, static_cast<std::size_t>(rank), folder));
  }
  return processes;
}

PerfOutcome RunPerf(const PerfRunOptions& options, const job::Machine& machine,
                    const Provenance& provenance, const Progress& progress, std::stop_token stop) {
  PerfOutcome outcome;
  PerfResults& results = outcome.results;
  results.provenance = provenance;
  results.machine = machine;
  results.config = options.config;
  outcome.status = Validate(options);
  if (outcome.status.ok()) {
    if (machine.cores > 0 && options.config.workers > machine.cores) {
      progress(fmt::format("{} workers share {} cores", options.config.workers, machine.cores));
    }
    outcome.status = PerfHarness(options, progress, std::move(stop), &results).Run();
  }
  results.partial = !outcome.status.ok();
  results.failure = outcome.status.message();
  results.ended_unix = SystemClock().UnixSeconds();
  return outcome;
}

}  // namespace paceline::bench

#include "paceline/fused_train.h"

#include <malloc.h>
#include <signal.h>

#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/clock.h"
#include "fused/training_run.h"
#include "job/lease_taker.h"
#include "job/progress.h"
#include "job/server_access.h"
#include "job/stop_signal.h"
#include "net/loop.h"

namespace paceline::cli {

namespace {

// Nothing when another trainer keeps the records.
Result<std::optional<job::RunSummary>> Train(const job::TrainConfig& config,
                                             const job::LaunchEnvironment& launch,
                                             const fused::RunEnvironment& environment) {
  if (!config.UsesServers()) {
    PACELINE_ASSIGN(job::RunSummary summary, fused::TrainLocally(config, environment));
    return std::optional(std::move(summary));
  }
  net::Loop loop;
  fused::ServerAccess access{.place = {.rank = launch.rank.value(), .world = launch.world},
                             .connect = [&](const ps::JobSpec& job) {
                               return job::ConnectToServers(loop, config, launch, job, ::getenv);
                             }};
  if (config.Elastic()) {
    access.join = [&](const std::string& fingerprint, std::uint64_t samples) {
      return job::JoinLender(config, launch, {.fingerprint = fingerprint, .samples = samples},
                             environment.clock, ::getenv);
    };
  }
  auto summary = fused::TrainWithServers(config, environment, access);
  if (!summary.ok()) return summary.status().Wrap(fmt::format("trainer {}", launch.rank.value()));
  return summary;
}

// Every step takes and frees messages of megabytes. They stay in the process: giving them back to
// the kernel and faulting them in again was 1.3 of 3.1 seconds of CPU of ctr-dnn with batches of
// 100. A launcher has said so in the environment already.
void KeepFreedMemory() {
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) return;
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc takes no more
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

std::string GroupText(const job::TrainConfig& config, const job::LaunchEnvironment& launch) {
  if (!config.UsesServers()) return "";
  const std::string trainers =
      config.Elastic() ? fmt::format("{} trainers", config.WorkersText())
                       : fmt::format("trainer {} of {}", launch.rank.value(), launch.world);
  return fmt::format("{}, {} server(s), {}", trainers, launch.servers.size(), config.mode);
}

}  // namespace

Result<int> TrainFused(job::TrainConfig config, const job::LaunchEnvironment& launch) {
  config.threads = 1;  // that compute; another one prepares batches
  KeepFreedMemory();
  job::InstallStopSignals();
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a disk error to report, not a way to die
  // In an elastic run anybody may come to lead, and show where the run is.
  const bool shows = !config.quiet && (launch.rank == Rank(0) || config.Elastic());
  if (shows && config.UsesServers() && launch.source != "paceline") {
    fmt::print(stderr, "{}\n", launch.Describe());
  }
  const fused::RunEnvironment environment{
      .clock = SystemClock(),
      .stop_signal = job::StopRequested,
      .progress = shows ? job::DetectProgressStyle() : job::ProgressStyle::kOff,
      .config_text = ToToml(config),
      .group = GroupText(config, launch)};
  PACELINE_ASSIGN(const auto summary, Train(config, launch, environment));
  if (summary) fmt::print("{}", config.json ? summary->Json() + "\n" : summary->Text());
  return 0;
}

}  // namespace paceline::cli

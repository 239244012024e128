#include "paceline/fused_train.h"

#include <malloc.h>
#include <signal.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/clock.h"
#include "fused/training_run.h"
#include "job/progress.h"
#include "job/server_access.h"
#include "job/stop_signal.h"
#include "net/loop.h"

namespace paceline::cli {

namespace {

Result<job::RunSummary> Train(const job::TrainConfig& config, const job::LaunchEnvironment& launch,
                              const fused::RunEnvironment& environment) {
  if (!config.UsesServers()) return fused::TrainLocally(config, environment);
  net::Loop loop;
  auto summary = fused::TrainWithServers(
      config, environment, {.rank = launch.rank.value(), .world = launch.world},
      [&](const ps::JobSpec& job) {
        return job::ConnectToServers(loop, config, launch, job, ::getenv);
      });
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

}  // namespace

Result<int> TrainFused(job::TrainConfig config, const job::LaunchEnvironment& launch) {
  config.threads = 1;  // that compute; another one prepares batches
  KeepFreedMemory();
  job::InstallStopSignals();
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a disk error to report, not a way to die
  const bool leads = launch.rank == Rank(0);
  const fused::RunEnvironment environment{
      .clock = SystemClock(),
      .stop_signal = job::StopRequested,
      .progress = config.quiet || !leads ? job::ProgressStyle::kOff : job::DetectProgressStyle(),
      .config_text = ToToml(config),
      .group = config.UsesServers()
                   ? fmt::format("trainer {} of {}, {} server(s), {}", launch.rank.value(),
                                 launch.world, launch.servers.size(), config.mode)
                   : ""};
  PACELINE_ASSIGN(const job::RunSummary summary, Train(config, launch, environment));
  if (leads) fmt::print("{}", config.json ? summary.Json() + "\n" : summary.Text());
  return 0;
}

}  // namespace paceline::cli

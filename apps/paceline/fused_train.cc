#include "paceline/fused_train.h"

#include <signal.h>

#include <fmt/format.h>

#include "base/clock.h"
#include "fused/training_run.h"
#include "job/progress.h"
#include "job/stop_signal.h"

namespace paceline::cli {

Result<int> TrainFused(job::TrainConfig config) {
  if (config.strategy != "local") {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--strategy {}: {} has embedding tables; it trains with "
                                     "--strategy local",
                                     config.strategy, config.model));
  }
  config.threads = 1;  // that compute; another one prepares batches
  job::InstallStopSignals();
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a disk error to report, not a way to die
  const fused::RunEnvironment environment{
      .clock = SystemClock(),
      .stop_signal = job::StopRequested,
      .progress = config.quiet ? job::ProgressStyle::kOff : job::DetectProgressStyle(),
      .config_text = ToToml(config),
      .group = ""};
  PACELINE_ASSIGN(const job::RunSummary summary, fused::TrainLocally(config, environment));
  fmt::print("{}", config.json ? summary.Json() + "\n" : summary.Text());
  return 0;
}

}  // namespace paceline::cli

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "base/clock.h"
#include "disk/faulty_file_system.h"
#include "disk/file_system.h"
#include "job/train_config.h"
#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "train/training_run.h"

namespace paceline::train {

// A training of a second that crosses an epoch.
inline job::TrainConfig SmallRun(const std::string& run) {
  job::TrainConfig config;
  config.model = "vgg16-small";
  config.batch = 4;
  config.steps = 6;
  config.train_samples = 20;  // so that a run crosses an epoch
  config.eval_samples = 10;
  config.threads = 1;
  config.run = run;
  EXPECT_THAT(Resolve(config, *model::FindModel(config.model).value(), 1), testing::IsOk());
  return config;
}

// Runs it in this process, until the stop signal is asked for too often.
struct RunHarness {
  disk::PosixFileSystem posix;
  std::optional<disk::FaultyFileSystem> faulty;
  GradientFault gradient_fault;
  std::uint64_t stop_after_checks = 1'000'000;
  std::uint64_t checks = 0;

  Result<job::RunSummary> Run(const job::TrainConfig& config) {
    auto& fs = faulty ? static_cast<disk::FileSystem&>(*faulty) : posix;
    PACELINE_ASSIGN(
        auto run,
        TrainingRun::Open(config,
                          {.clock = SystemClock(),
                           .file_system = fs,
                           .stop_signal = [this] { return ++checks > stop_after_checks ? 15 : 0; },
                           .config_text = ToToml(config),
                           .gradient_fault = gradient_fault}));
    return run->Run();
  }
};

}  // namespace paceline::train

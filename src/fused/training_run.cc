#include "fused/training_run.h"

#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/check.h"
#include "base/cpu.h"
#include "disk/file_system.h"
#include "fused/job_description.h"
#include "fused/model_factory.h"
#include "ps/local_store.h"
#include "ps/server_core.h"

namespace paceline::fused {

using job::RunSummary;
using job::TrainConfig;

namespace {

Result<std::string> ServerFolder(const std::string& run) {
  std::string folder = run + "/servers/server-0";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return folder;
  return Status::Error(Code::kDisk, fmt::format("cannot make {}: {}", folder, error.message()));
}

}  // namespace

Result<RunSummary> TrainLocally(const TrainConfig& config, const RunEnvironment& environment) {
  PACELINE_TRY(CheckCpu());
  PACELINE_ASSIGN(const ModelWithData model, MakeModel(config));
  PACELINE_ASSIGN(const ps::JobSpec spec, DescribeJob(config, model, 1));
  PACELINE_ASSIGN(const auto log, RunLog::Open(config, environment, RunLog::Lock::kTake));
  PACELINE_ASSIGN(const std::string folder, ServerFolder(config.run));
  disk::PosixFileSystem file_system;
  // A process that dies takes trainer and parameters with it and repeats what came after the last
  // snapshot, as any local training does: a log of every push would only cost time.
  PACELINE_ASSIGN(
      const auto core,
      ps::ServerCore::Open(
          {.file_system = &file_system, .folder = folder, .wal = ps::Wal::kOff, .load_from = {}}));
  PACELINE_TRY(core->Configure(spec).Wrap("resuming " + config.run));
  PACELINE_TRY(log->KeepConfig(environment));
  ps::LocalStore store(*core);
  PACELINE_ASSIGN(
      auto summary,
      RunTrainer(
          config, environment, model,
          {.place = {}, .store = store, .spec = spec, .save = [&] { return core->Snapshot(); }},
          *log));
  PACELINE_CHECK(summary.has_value(), "a trainer alone leads");
  return *std::move(summary);
}

Result<std::optional<RunSummary>> TrainWithServers(const TrainConfig& config,
                                                   const RunEnvironment& environment,
                                                   const ServerAccess& access) {
  PACELINE_TRY(CheckCpu());
  const bool elastic = access.join != nullptr;
  PACELINE_ASSIGN(const ModelWithData model, MakeModel(config));
  PACELINE_ASSIGN(const ps::JobSpec spec,
                  DescribeJob(config, model, elastic ? 0 : access.place.world));
  PACELINE_ASSIGN(const auto store, access.connect(spec));
  std::unique_ptr<job::LeaseTaker> leases;
  if (elastic) {
    PACELINE_ASSIGN(const algo::BatchPlan plan, PlanOf(config, model.model->dataset_size()));
    PACELINE_ASSIGN(leases, access.join(spec.fingerprint, plan.total_samples));
  }
  const std::unique_ptr<RunLog> log = RunLog::Silent(config, environment);
  return RunTrainer(config, environment, model,
                    {.place = access.place,
                     .store = *store,
                     .spec = spec,
                     .pull_ahead = config.pull_ahead,
                     .elastic = elastic,
                     .leases = leases.get()},
                    *log);
}

}  // namespace paceline::fused

#include "job/checkpoint_export.h"

#include <fmt/format.h>

#include "disk/checkpoint.h"
#include "disk/run_lock.h"
#include "job/run_dir.h"

namespace paceline::job {

namespace {

// Of a checkpoint, and of an export.
constexpr char kModelFile[] = "model.safetensors", kAverageFile[] = "ema.safetensors";

std::string PathIn(const std::string& out, const char* name) {
  return fmt::format("{}/{}", out, name);
}

Status CheckIsNew(disk::FileSystem& fs, const std::string& path) {
  PACELINE_ASSIGN(const bool there, fs.Exists(path));
  if (!there) return {};
  return Status::Error(Code::kInvalidArgument, path + " is there already; --out takes another");
}

// Gets its name when it is whole and on disk.
Result<ExportSummary> WriteFile(disk::FileSystem& fs, const disk::LoadedFile& from,
                                const std::string& out, const char* name) {
  disk::CheckpointFile file{.name = std::string(name) + ".tmp"};
  ExportSummary summary;
  for (const wire::TensorInfo& tensor : from.header.tensors) {
    file.tensors.push_back(from.View(tensor));
    summary.dense_floats += file.tensors.back().bytes.size() / sizeof(float);
  }
  summary.dense_tensors = file.tensors.size();
  const std::string path = PathIn(out, name);
  PACELINE_TRY(fs.RemoveAll(path + ".tmp"));  // of an export that did not end
  PACELINE_TRY(disk::WriteTensors(fs, out, file).status());
  PACELINE_TRY(fs.Rename(path + ".tmp", path));
  PACELINE_TRY(fs.SyncDir(out));
  summary.files.push_back(path);
  return summary;
}

Result<disk::LoadedCheckpoint> Load(disk::FileSystem& fs, const std::string& run,
                                    WhichCheckpoint which) {
  disk::CheckpointStore store(fs, RunDirectory(run).CheckpointDirectory(),
                              {.access = disk::Access::kReadOnly});
  if (which == WhichCheckpoint::kNewest) return store.LoadNewest();
  auto best = store.LoadBest();
  if (best.ok() || best.status().code() != Code::kNotFound) return best;
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("--best: {} kept no best checkpoint: it was trained without --keep-best, or was "
                  "never evaluated",
                  run));
}

}  // namespace

Result<bool> HasCheckpoints(disk::FileSystem& fs, const std::string& run) {
  const RunDirectory directory(run);
  PACELINE_ASSIGN(const bool servers, fs.Exists(directory.ServersDirectory()));
  if (servers) return false;
  return fs.Exists(directory.CheckpointDirectory());
}

Result<ExportSummary> ExportCheckpoint(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out,
                                       const CheckpointExportOptions& options) {
  const bool averages = options.average == Average::kExport;
  PACELINE_TRY(CheckIsNew(fs, PathIn(out, kModelFile)));
  if (averages) PACELINE_TRY(CheckIsNew(fs, PathIn(out, kAverageFile)));
  PACELINE_ASSIGN(const disk::RunLock lock, disk::RunLock::Acquire(run));
  PACELINE_ASSIGN(const disk::LoadedCheckpoint checkpoint, Load(fs, run, options.which));
  const disk::LoadedFile* const model = checkpoint.FindFile(kModelFile);
  if (model == nullptr) {
    return Status::Error(Code::kBadCheckpoint,
                         fmt::format("the checkpoint of {} has no {}", run, kModelFile));
  }
  const disk::LoadedFile* const ema = checkpoint.FindFile(kAverageFile);
  if (averages && ema == nullptr) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("{} has no average of its parameters: it was trained without --ema", run));
  }
  PACELINE_TRY(RunDirectory(out).Create());
  PACELINE_ASSIGN(ExportSummary summary, WriteFile(fs, *model, out, kModelFile));
  summary.step = checkpoint.meta.step;
  if (!averages) return summary;
  PACELINE_ASSIGN(const ExportSummary more, WriteFile(fs, *ema, out, kAverageFile));
  summary.files.push_back(more.files.front());
  return summary;
}

}  // namespace paceline::job

#include "job/checkpoint_export.h"

#include <fmt/format.h>

#include "disk/checkpoint.h"
#include "disk/run_lock.h"
#include "job/run_dir.h"

namespace paceline::job {

namespace {

constexpr char kFile[] = "model.safetensors";  // of a checkpoint, and of an export

}  // namespace

Result<bool> HasCheckpoints(disk::FileSystem& fs, const std::string& run) {
  const RunDirectory directory(run);
  PACELINE_ASSIGN(const bool servers, fs.Exists(directory.ServersDirectory()));
  if (servers) return false;
  return fs.Exists(directory.CheckpointDirectory());
}

Result<ExportSummary> ExportCheckpoint(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out) {
  const std::string path = fmt::format("{}/{}", out, kFile);
  PACELINE_ASSIGN(const bool there, fs.Exists(path));
  if (there) {
    return Status::Error(Code::kInvalidArgument, path + " is there already; --out takes another");
  }
  PACELINE_ASSIGN(const disk::RunLock lock, disk::RunLock::Acquire(run));
  disk::CheckpointStore store(fs, RunDirectory(run).CheckpointDirectory(),
                              {.access = disk::Access::kReadOnly});
  PACELINE_ASSIGN(const disk::LoadedCheckpoint checkpoint, store.LoadNewest());
  const disk::LoadedFile* model = checkpoint.FindFile(kFile);
  if (model == nullptr) {
    return Status::Error(Code::kBadCheckpoint,
                         fmt::format("the newest checkpoint of {} has no {}", run, kFile));
  }
  disk::CheckpointFile file{.name = std::string(kFile) + ".tmp"};
  ExportSummary summary;
  for (const wire::TensorInfo& tensor : model->header.tensors) {
    file.tensors.push_back(model->View(tensor));
    summary.dense_floats += file.tensors.back().bytes.size() / sizeof(float);
  }
  summary.dense_tensors = file.tensors.size();
  PACELINE_TRY(RunDirectory(out).Create());
  PACELINE_TRY(fs.RemoveAll(path + ".tmp"));  // of an export that did not end
  PACELINE_TRY(disk::WriteTensors(fs, out, file).status());
  PACELINE_TRY(fs.Rename(path + ".tmp", path));
  PACELINE_TRY(fs.SyncDir(out));
  summary.files.push_back(path);
  return summary;
}

}  // namespace paceline::job

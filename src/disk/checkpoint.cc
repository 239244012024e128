#include "disk/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace paceline::disk {

namespace {

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The generation itself is bad, as opposed to the disk or the question.
bool IsDamage(Code code) { return code == Code::kBadData || code == Code::kNotFound; }

Status CheckNames(std::span<const CheckpointFile> files) {
  std::set<std::string_view> names;
  for (const CheckpointFile& file : files) {
    if (!IsPlainFileName(file.name) || !names.insert(file.name).second) {
      return Status::Error(Code::kInvalidArgument,
                           fmt::format("file name \"{}\" is not plain or is taken", file.name));
    }
  }
  return {};
}

Status NoneUsable(const std::string& root, const std::vector<std::string>& reasons) {
  return Status::Error(
      Code::kBadCheckpoint,
      fmt::format("no usable checkpoint in {} ({}); nothing was deleted, move the directory away "
                  "to start from the beginning",
                  root, reasons.empty() ? "all are marked broken" : reasons.front()));
}

}  // namespace

CheckpointStore::CheckpointStore(FileSystem& fs, std::string root, CheckpointStoreOptions options)
    : fs_(fs), root_(WithoutTrailingSlash(std::move(root))), options_(std::move(options)) {}

std::string CheckpointStore::TemporaryPath(const std::string& purpose) {
  return Path(fmt::format("{}{}-{}-{}", kTemporaryPrefix, purpose, ::getpid(), ++temporaries_));
}

Status CheckpointStore::MakeRoot() {
  PACELINE_ASSIGN(const bool exists, fs_.Exists(root_));
  if (exists) return {};
  PACELINE_TRY(fs_.MakeDir(root_));
  const std::string parent = std::filesystem::path(root_).parent_path().string();
  return fs_.SyncDir(parent.empty() ? "." : parent);
}

Result<RootLayout> CheckpointStore::Scan() {
  PACELINE_ASSIGN(const std::vector<DirEntry> entries, fs_.List(root_));
  return ReadLayout(entries);
}

Result<Generation> CheckpointStore::Save(const CheckpointMeta& meta,
                                         std::span<const CheckpointFile> files) {
  if (options_.access != Access::kOwner || options_.cluster_id.empty()) {
    return Status::Error(Code::kInvalidArgument, "saving needs ownership and a cluster id");
  }
  PACELINE_TRY(MakeRoot());
  PACELINE_ASSIGN(const RootLayout before, Scan());
  // Space that an earlier failed save could not give back.
  for (const std::string& name : before.temporaries) PACELINE_TRY(fs_.RemoveAll(Path(name)));

  CheckpointMeta stamped = meta;
  stamped.cluster_id = options_.cluster_id;
  stamped.generation = before.NextGeneration();
  const std::string temporary = TemporaryPath(fmt::format("{:016}", stamped.generation.value()));
  if (Status status = Commit(temporary, stamped, files); !status.ok()) {
    static_cast<void>(fs_.RemoveAll(temporary));  // the first error is the one to report
    return status.Wrap("saving " + GenerationName(stamped.generation));
  }
  PACELINE_TRY(WritePointer(kLatestName, stamped.generation));
  PACELINE_TRY(VerifyNew(before, stamped.generation));
  PACELINE_TRY(RemoveOld(before).Wrap("removing old checkpoints"));
  return stamped.generation;
}

// The order is the promise: content, manifest, names, and only then the name that readers look for.
Status CheckpointStore::Commit(const std::string& temporary, const CheckpointMeta& meta,
                               std::span<const CheckpointFile> files) {
  Manifest manifest{.meta = meta};
  PACELINE_TRY(CheckNames(files));
  PACELINE_TRY(fs_.MakeDir(temporary));
  for (const CheckpointFile& file : files) {
    PACELINE_ASSIGN(ManifestFile entry, WriteTensors(fs_, temporary, file));
    manifest.files.push_back(std::move(entry));
  }
  PACELINE_ASSIGN(const std::string text, EncodeManifest(manifest));
  PACELINE_TRY(WriteText(fs_, temporary + "/" + kManifestName, text));
  PACELINE_TRY(fs_.SyncDir(temporary));
  PACELINE_TRY(fs_.Rename(temporary, Path(GenerationName(meta.generation))));
  return fs_.SyncDir(root_);
}

// LATEST is for people and scripts; nothing here reads it. BEST protects from RemoveOld(), and
// LoadBest() goes by it.
Status CheckpointStore::WritePointer(const char* name, Generation generation) {
  const std::string temporary = TemporaryPath(name);
  Status status = WriteText(fs_, temporary, GenerationName(generation) + "\n");
  if (status.ok()) status = fs_.Rename(temporary, Path(name));
  if (status.ok()) return fs_.SyncDir(root_);
  static_cast<void>(fs_.RemoveAll(temporary));
  return status;
}

Status CheckpointStore::MarkBest(Generation generation) {
  return WritePointer(kBestName, generation).Wrap("marking the best checkpoint");
}

// Nothing when it names no generation: then somebody else wrote it.
Result<std::optional<Generation>> CheckpointStore::ReadBest() {
  constexpr std::uint64_t kMaxBytes = 256;
  const auto bytes = ReadWhole(fs_, Path(kBestName), kMaxBytes);
  if (!bytes.ok() && IsDamage(bytes.status().code())) return std::optional<Generation>();
  PACELINE_TRY(bytes.status());
  std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto entry = ParseGenerationName(text);
  return entry ? std::optional(entry->number) : std::nullopt;
}

Status CheckpointStore::VerifyNew(const RootLayout& before, Generation generation) {
  const std::string dir = Path(GenerationName(generation));
  const auto verify = [&]() -> Status {
    PACELINE_ASSIGN(const Manifest manifest, ReadManifest(fs_, dir));
    for (const ManifestFile& file : manifest.files) PACELINE_TRY(VerifyFile(fs_, dir, file));
    return {};
  };
  Status status = verify();
  if (status.ok() || status.code() == Code::kDisk) return status;
  // What was just written came back different. It must not count as one of those to keep.
  static_cast<void>(SetAside(before, generation));
  return Status::Error(Code::kDisk, "checkpoint was damaged while writing: " + status.message());
}

Status CheckpointStore::RemoveOld(const RootLayout& before) {
  std::optional<Generation> best;
  if (before.has_best) {
    PACELINE_ASSIGN(best, ReadBest());
  }
  int kept = 1;  // the new one
  for (const GenerationEntry& entry : before.generations) {
    if (entry.broken || !entry.is_directory) continue;
    if (++kept <= std::max(2, options_.keep) || entry.number == best) continue;
    // Renamed first: half of a generation must never carry a generation's name.
    const std::string temporary = TemporaryPath("old-" + entry.name);
    PACELINE_TRY(fs_.Rename(Path(entry.name), temporary));
    PACELINE_TRY(fs_.RemoveAll(temporary));
  }
  return {};
}

Result<LoadedCheckpoint> CheckpointStore::LoadNewest() {
  PACELINE_ASSIGN(const RootLayout layout, Scan());
  const bool owner = options_.access == Access::kOwner;
  std::vector<std::string> warnings;
  const auto warn_unless_ok = [&](const Status& status) {
    if (!status.ok()) warnings.push_back(status.message());
  };
  for (const std::string& name : layout.temporaries) {
    if (owner) warn_unless_ok(fs_.RemoveAll(Path(name)));
  }
  if (layout.generations.empty()) {
    return Status::Error(Code::kNotFound, fmt::format("no checkpoint in {}", root_));
  }
  for (const GenerationEntry& entry : layout.generations) {
    if (entry.broken) continue;
    auto loaded = LoadGeneration(entry);
    if (loaded.ok()) {
      loaded->warnings = std::move(warnings);
      return loaded;
    }
    if (!IsDamage(loaded.status().code())) return loaded.status();
    warnings.push_back("skipped damaged checkpoint: " + loaded.status().message());
    if (owner) warn_unless_ok(SetAside(layout, entry.number));
  }
  return NoneUsable(root_, warnings);
}

Result<LoadedCheckpoint> CheckpointStore::LoadBest() {
  PACELINE_ASSIGN(const RootLayout layout, Scan());
  if (!layout.has_best) {
    return Status::Error(Code::kNotFound, fmt::format("no best checkpoint in {}", root_));
  }
  PACELINE_ASSIGN(const std::optional<Generation> best, ReadBest());
  const auto entry =
      std::ranges::find_if(layout.generations, [&](const GenerationEntry& generation) {
        return !generation.broken && generation.number == best;
      });
  if (entry == layout.generations.end()) {
    return Status::Error(Code::kBadCheckpoint,
                         fmt::format("{} names a checkpoint that is not there", Path(kBestName)));
  }
  auto loaded = LoadGeneration(*entry);
  if (loaded.ok() || !IsDamage(loaded.status().code())) return loaded;
  return Status::Error(Code::kBadCheckpoint, fmt::format("the best checkpoint is damaged: {}",
                                                         loaded.status().message()));
}

Result<LoadedCheckpoint> CheckpointStore::LoadGeneration(const GenerationEntry& entry) {
  const std::string dir = Path(entry.name);
  if (!entry.is_directory) return Status::Error(Code::kBadData, dir + " is not a directory");
  PACELINE_ASSIGN(Manifest manifest, ReadManifest(fs_, dir));
  if (manifest.meta.generation != entry.number) {
    return Status::Error(Code::kBadData, fmt::format("{} has the manifest of generation {}", dir,
                                                     manifest.meta.generation.value()));
  }
  if (!options_.cluster_id.empty() && manifest.meta.cluster_id != options_.cluster_id) {
    return Status::Error(Code::kMismatch,
                         fmt::format("{} belongs to cluster \"{}\", this run is \"{}\"", dir,
                                     manifest.meta.cluster_id, options_.cluster_id));
  }
  LoadedCheckpoint loaded{.meta = std::move(manifest.meta)};
  for (const ManifestFile& file : manifest.files) {
    PACELINE_ASSIGN(LoadedFile content, LoadFile(fs_, dir, file));
    loaded.files.push_back(std::move(content));
  }
  return loaded;
}

Status CheckpointStore::SetAside(const RootLayout& layout, Generation generation) {
  PACELINE_TRY(fs_.Rename(Path(GenerationName(generation)), Path(layout.BrokenName(generation))));
  return fs_.SyncDir(root_);
}

}  // namespace paceline::disk

#include "store/file_store.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "disk/run_lock.h"
#include "store/state_log.h"

namespace paceline::store {

namespace {

constexpr int kMaxBroken = 1000;  // files set aside beside one log

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Thread-compatible. Owns the lock; borrows the file system unless it has its own.
class FileStore final : public StateStore {
 public:
  FileStore(std::string path, disk::RunLock lock, const StateStoreOptions& options)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        fs_(options.file_system == nullptr ? own_fs_ : *options.file_system),
        compact_bytes_(options.compact_bytes) {}

  // Reads the log and brings it into a state to which records may be added.
  Status Recover();

  Result<std::optional<std::string>> Load() override;
  Status Save(std::string_view state) override;
  std::string Describe() const override { return "file " + path_; }

 private:
  Status SetAside(std::span<const std::byte> tail);
  Status Rewrite(std::string_view state);
  Status Append(std::span<const std::byte> record);

  const std::string path_;
  const disk::RunLock lock_;
  disk::PosixFileSystem own_fs_;
  disk::FileSystem& fs_;
  const std::size_t compact_bytes_;

  // What is on disk. After a write that did not succeed nothing of it is known: Load reads the log
  // again, and Save writes a new one, because nothing may be added behind half a record and a
  // second fsync does not say what became of the first.
  bool write_failed_ = false;
  std::optional<std::string> newest_;
  std::optional<std::size_t> log_bytes_;      // of a whole log; nothing: there is none
  std::unique_ptr<disk::WritableFile> file_;  // the end of that log; null: not yet open
};

Status FileStore::Recover() {
  log_bytes_.reset();
  file_.reset();
  PACELINE_ASSIGN(const bool exists, fs_.Exists(path_));
  if (!exists) {
    newest_.reset();
    write_failed_ = false;
    return {};
  }
  PACELINE_ASSIGN(const auto bytes, disk::ReadWhole(fs_, path_, kMaxLogBytes));
  PACELINE_ASSIGN(DecodedLog log, DecodeLog(bytes, path_));
  if (log.whole_bytes < bytes.size()) {
    PACELINE_TRY(SetAside(std::span(bytes).subspan(log.whole_bytes)));
    return Rewrite(log.newest);
  }
  if (write_failed_) return Rewrite(log.newest);
  // The process that wrote this may have died before it was durable. It is about to be relied on.
  PACELINE_ASSIGN(auto file, fs_.OpenForAppend(path_, disk::ReadBack::kSoon));
  PACELINE_TRY(file->Sync());
  PACELINE_TRY(fs_.SyncDir(ParentOf(path_)));
  file_ = std::move(file);
  log_bytes_ = bytes.size();
  newest_ = std::move(log.newest);
  return {};
}

Result<std::optional<std::string>> FileStore::Load() {
  if (write_failed_) PACELINE_TRY(Recover());
  return newest_;
}

Status FileStore::Save(std::string_view state) {
  if (state.size() > kMaxStateBytes) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a state of {} bytes for {}: at most {}", state.size(),
                                     Describe(), kMaxStateBytes));
  }
  const std::vector<std::byte> record = EncodeRecord(state);
  const bool fits = log_bytes_.has_value() && *log_bytes_ + record.size() <= compact_bytes_;
  if (!fits) return Rewrite(state);
  if (file_ == nullptr) {
    PACELINE_ASSIGN(file_, fs_.OpenForAppend(path_, disk::ReadBack::kSoon));
  }
  PACELINE_TRY(Append(record));
  newest_ = std::string(state);
  write_failed_ = false;
  return {};
}

Status FileStore::Append(std::span<const std::byte> record) {
  write_failed_ = true;
  const std::size_t before = *std::exchange(log_bytes_, std::nullopt);
  std::unique_ptr<disk::WritableFile> file = std::move(file_);
  PACELINE_TRY(file->Append(record));
  PACELINE_TRY(file->Sync());
  file_ = std::move(file);
  log_bytes_ = before + record.size();
  return {};
}

// Keeps what a crash left of a record: it may help to find out what happened.
Status FileStore::SetAside(std::span<const std::byte> tail) {
  std::string name = path_ + ".broken";
  for (int n = 2;; ++n) {
    PACELINE_ASSIGN(const bool taken, fs_.Exists(name));
    if (!taken) break;
    if (n > kMaxBroken) {
      return Status::Error(Code::kDisk, fmt::format("too many files named {}.broken*", path_));
    }
    name = fmt::format("{}.broken-{}", path_, n);
  }
  PACELINE_LOG(Warning, "{} ends with {} bytes of a record that was never complete; moved to {}",
               path_, tail.size(), name);
  PACELINE_ASSIGN(const auto file, fs_.Create(name));
  PACELINE_TRY(file->Append(tail));
  PACELINE_TRY(file->Sync());
  return file->Close();
}

// A new log with this state alone takes the place of the old one, at once or not at all.
Status FileStore::Rewrite(std::string_view state) {
  write_failed_ = true;
  log_bytes_.reset();
  file_.reset();
  std::vector<std::byte> content = EncodeLogHeader();
  const std::vector<std::byte> record = EncodeRecord(state);
  content.insert(content.end(), record.begin(), record.end());

  const std::string temporary = path_ + ".tmp";
  PACELINE_TRY(fs_.RemoveAll(temporary));  // of one that died
  PACELINE_ASSIGN(const auto file, fs_.Create(temporary));
  PACELINE_TRY(file->Append(content));
  PACELINE_TRY(file->Sync());
  PACELINE_TRY(file->Close());
  PACELINE_TRY(fs_.Rename(temporary, path_));
  PACELINE_TRY(fs_.SyncDir(ParentOf(path_)));
  log_bytes_ = content.size();
  newest_ = std::string(state);
  write_failed_ = false;
  return {};
}

}  // namespace

Result<std::unique_ptr<StateStore>> OpenFileStore(const std::string& path,
                                                  const StateStoreOptions& options) {
  PACELINE_ASSIGN(auto lock, disk::RunLock::AcquireFile(path, options.owner));
  auto store = std::make_unique<FileStore>(path, std::move(lock), options);
  PACELINE_TRY(store->Recover());
  return std::unique_ptr<StateStore>(std::move(store));
}

}  // namespace paceline::store

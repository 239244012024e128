// What a server's core does with its folder: log, snapshots and recovery.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ps/change_payload.h"
#include "ps/other_servers.h"
#include "ps/server_core_impl.h"
#include "ps/snapshot_writer.h"

namespace paceline::ps {

namespace {

// Of a server's folder: when the newest is damaged, the one before and its log take its place.
constexpr std::size_t kSnapshots = 2;

Status DamagedLog(const std::string& why) { return Status::Error(Code::kBadCheckpoint, why); }

}  // namespace

ServerValuesOptions ServerCore::Impl::ValuesOptions() const {
  return {.index = options_.index,
          .servers = options_.servers,
          .table_store = options_.table_store,
          .folder = options_.folder,
          .hot_bytes = options_.hot_bytes};
}

void ServerCore::Impl::Adopt(ServerState state) {
  rounds_ = std::move(state.rounds);
  const MutexLock lock(state_);
  values_ = std::move(state.values);
  initialised_ = state.initialised;
  progress_ = std::move(state.progress);
  waiting_pushes_ = rounds_.pushes();
  waiting_bytes_ = rounds_.bytes();
}

Result<std::uint64_t> ServerCore::Impl::Log(ChangeType type, std::span<const std::byte> payload,
                                            const std::shared_ptr<const void>& owner) {
  if (!Logs()) return std::uint64_t{0};
  log_bytes_ += payload.size() + kRecordOverhead;
  return log_->Append(type, payload, owner);
}

Status ServerCore::Impl::AwaitDurable(std::uint64_t record) {
  return record == 0 ? Status() : log_->records().AwaitDurable(record);
}

void ServerCore::Impl::WhenDurable(std::uint64_t record, std::function<void(const Status&)> done) {
  if (record == 0 || log_ == nullptr) {
    done({});
  } else {
    log_->records().WhenDurable(record, std::move(done));
  }
}

// A snapshot of another server is refused; only damage makes an older one count.
Result<std::uint64_t> ServerCore::Impl::LoadNewestSnapshot(Damaged& damaged) {
  disk::FileSystem& fs = *options_.file_system;
  PACELINE_ASSIGN(const auto snapshots, ListSnapshots(fs, options_.folder));
  if (snapshots.empty()) return std::uint64_t{1};
  for (auto number = snapshots.rbegin(); number != snapshots.rend(); ++number) {
    auto state = LoadSnapshot(fs, options_.folder, *number, ValuesOptions());
    if (state.ok()) {
      Adopt(std::move(state).value());
      recovery_.snapshot = true;
      return *number;
    }
    if (state.status().code() != Code::kBadCheckpoint) return state.status();
    damaged.emplace_back(*number, state.status());
  }
  return damaged.front().second;
}

// Kept for whoever looks for the reason.
Status ServerCore::Impl::SetAside(const Damaged& damaged) {
  disk::FileSystem& fs = *options_.file_system;
  for (const auto& [number, why] : damaged) {
    const std::string path = SnapshotPath(options_.folder, number);
    PACELINE_TRY(fs.Rename(path, path + ".broken"));
    recovery_.damaged.push_back(
        fmt::format("{}; it is now {}.broken, and an older snapshot with the log behind it counts",
                    why.message(), path));
    snapshot_asked_ = true;  // so that there are two again
  }
  return damaged.empty() ? Status() : fs.SyncDir(options_.folder);
}

// A snapshot goes before its log: what is there can be used.
Status ServerCore::Impl::RemoveOldSnapshots() {
  disk::FileSystem& fs = *options_.file_system;
  PACELINE_ASSIGN(const auto snapshots, ListSnapshots(fs, options_.folder));
  const std::uint64_t oldest =
      snapshots.empty() ? 0 : snapshots[snapshots.size() - std::min(kSnapshots, snapshots.size())];
  PACELINE_TRY(RemoveSnapshotsBefore(fs, options_.folder, oldest));
  return log_->records().DropBefore(oldest);
}

// The newest snapshot, then what the log has behind it.
Status ServerCore::Impl::Recover() {
  const MutexLock writing(writer_);
  if (options_.folder.empty() && options_.load_from.empty()) return {};  // memory only
  disk::FileSystem* const fs = options_.file_system;
  if (fs == nullptr) {
    return Status::Error(Code::kInvalidArgument, "a folder needs a file system");
  }
  if (!options_.folder.empty()) {
    Damaged damaged;
    PACELINE_ASSIGN(const std::uint64_t first, LoadNewestSnapshot(damaged));
    const auto group = options_.wal == Wal::kAlways ? std::chrono::milliseconds(0) : options_.group;
    LogRecovery found;
    PACELINE_ASSIGN(log_, ChangeLog::Open(
                              {.file_system = fs, .folder = options_.folder, .group = group}, first,
                              [this](ChangeType type, std::span<const std::byte> payload)
                                  PACELINE_REQUIRES(writer_) { return Replay(type, payload); },
                              found));
    recovery_.torn_bytes = found.torn_bytes;
    PACELINE_TRY(SetAside(damaged));
    PACELINE_TRY(RemoveOldSnapshots());
  }
  if (options_.load_from.empty()) return {};
  if (Configured().ok()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} is not empty: only a server without values can begin with "
                                     "those of an earlier run",
                                     options_.folder));
  }
  PACELINE_ASSIGN(ServerState state, LoadOtherServers(*fs, options_.load_from, ValuesOptions()));
  Adopt(std::move(state));
  if (log_ == nullptr) return {};
  PACELINE_ASSIGN(const Frozen frozen, Freeze());
  return WriteFrozen(frozen);
}

Status ServerCore::Impl::Replay(ChangeType type, std::span<const std::byte> payload) {
  log_bytes_ += payload.size() + kRecordOverhead;
  switch (type) {
    case ChangeType::kJob: return ReplayJob(payload);
    case ChangeType::kInitialise: return ReplayInitialise(payload);
    case ChangeType::kPush: {
      const Status status = ReplayPush(payload);
      return status.ok() ? status : DamagedLog("a push in the log: " + status.message());
    }
    default:
      return DamagedLog(fmt::format("a change of type {} in the log", static_cast<int>(type)));
  }
}

Status ServerCore::Impl::ReplayJob(std::span<const std::byte> payload) {
  if (Configured().ok()) return DamagedLog("a second job in the log");
  PACELINE_ASSIGN(const ServerJob job, DecodeServerJob(payload));
  if (job.index != options_.index || job.servers != options_.servers) {
    return Status::Error(
        Code::kMismatch,
        fmt::format("{} is of server {} of {}, this is server {} of {}", options_.folder, job.index,
                    job.servers, options_.index, options_.servers));
  }
  ServerState state;
  PACELINE_ASSIGN(state.values, ServerValues::Open(job.spec, ValuesOptions()));
  state.initialised = state.values->dense().floats() == 0;
  state.progress = Progress(job.spec.trainers);
  Adopt(std::move(state));
  return {};
}

Status ServerCore::Impl::ReplayInitialise(std::span<const std::byte> payload) {
  const auto values = Configured();
  if (!values.ok() || payload.size() != (*values)->dense().floats() * sizeof(float)) {
    return DamagedLog("first values in the log that do not fit the job");
  }
  std::vector<float> dense((*values)->dense().floats());
  if (!dense.empty()) std::memcpy(dense.data(), payload.data(), payload.size());
  (*values)->dense().Assign(dense);
  const MutexLock lock(state_);
  initialised_ = true;
  return {};
}

Status ServerCore::Impl::ReplayPush(std::span<const std::byte> payload) {
  MessageBytes copy = pool_.Take();
  copy.resize(payload.size() / sizeof(std::uint64_t));
  std::memcpy(copy.data(), payload.data(), AsBytes(copy).size());
  const SharedMessage message = pool_.Share(std::move(copy));
  PACELINE_ASSIGN(const ps::Push push, DecodePush(AsBytes(*message)));
  PACELINE_ASSIGN(ServerValues* const values, Ready());
  PACELINE_TRY(values->Check(push));
  {
    const MutexLock lock(state_);
    PACELINE_ASSIGN(const auto answer, progress_.Check(push));
    if (answer == PushLedger::Answer::kDuplicate) return DamagedLog("it is there twice");
  }
  ++recovery_.replayed;
  return Apply(*values, push, Plan(*values, push, message));
}

Status ServerCore::Impl::Snapshot() {
  const MutexLock one(snapshotting_);
  Frozen frozen;
  {
    const MutexLock writing(writer_);
    if (log_ == nullptr || Configured().status().code() == Code::kUnavailable) return {};
    PACELINE_ASSIGN(frozen, Freeze());
  }
  return WriteFrozen(frozen);
}

// The state of now, and the log begins a segment with what comes after it.
Result<ServerCore::Impl::Frozen> ServerCore::Impl::Freeze() {
  Frozen frozen;
  PACELINE_ASSIGN(frozen.values, Configured());
  frozen.dense = frozen.values->dense().Copy();
  for (std::size_t i = 0; i < frozen.values->spec().tables.size(); ++i) {
    PACELINE_ASSIGN(auto table, frozen.values->table(i).Freeze());
    frozen.tables.push_back(std::move(table));
  }
  frozen.evicted = frozen.values->Evicted();
  frozen.rounds = rounds_;
  {
    const MutexLock lock(state_);
    frozen.progress = progress_;
    frozen.initialised = initialised_;
  }
  PACELINE_ASSIGN(frozen.segment, log_->records().StartSegment());
  log_bytes_ = 0;
  snapshot_asked_ = false;
  return frozen;
}

Status ServerCore::Impl::WriteFrozen(const Frozen& frozen) {
  disk::FileSystem& fs = *options_.file_system;
  PACELINE_TRY(WriteSnapshot(fs, options_.folder, frozen.segment,
                             {.values = *frozen.values,
                              .tables = frozen.tables,
                              .evicted = frozen.evicted,
                              .dense = frozen.dense,
                              .initialised = frozen.initialised,
                              .progress = frozen.progress,
                              .rounds = frozen.rounds}));
  // An older one is removed only for one that can be read.
  const Status verified = VerifySnapshot(fs, options_.folder, frozen.segment);
  if (verified.code() == Code::kBadCheckpoint) {
    const std::string path = SnapshotPath(options_.folder, frozen.segment);
    PACELINE_TRY(fs.Rename(path, path + ".broken"));
    return Status::Error(Code::kDisk, verified.message())
        .Wrap("what was written reads differently");
  }
  PACELINE_TRY(verified);
  ++snapshots_;
  return RemoveOldSnapshots();
}

bool ServerCore::Impl::WantsSnapshot() const {
  return snapshot_asked_ || log_bytes_ > options_.snapshot_log_bytes;
}

}  // namespace paceline::ps

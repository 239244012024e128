#include "ps/other_servers.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "algo/table_partition.h"
#include "ps/push_log.h"
#include "ps/snapshot_writer.h"

namespace paceline::ps {

namespace {

Status Refuse(const std::string& why) { return Status::Error(Code::kBadCheckpoint, why); }

// Makes sure that the folders are of servers that were stopped together, and keeps nothing.
class Checker : public SnapshotSink {
 public:
  explicit Checker(std::size_t folders) : folders_(folders) {}

  void Open(const std::string& folder) { folder_ = folder; }

  Status Head(const SnapshotHead& head) override {
    if (head.job.servers != folders_) {
      return Refuse(fmt::format("it is of one of {} servers, but {} folders are given",
                                head.job.servers, folders_));
    }
    if (!seen_.insert(head.job.index).second) {
      return Refuse(fmt::format("server {} is given twice", head.job.index));
    }
    if (!head.initialised) return Refuse("it has no dense values yet");
    if (!first_) {
      first_ = head;
      first_folder_ = folder_;
      return {};
    }
    const std::string difference = JobDifference(first_->job.spec, head.job.spec);
    if (!difference.empty()) {
      return Refuse(fmt::format("another job than in {}: {}", first_folder_, difference));
    }
    if (!(first_->progress == head.progress)) {
      return Refuse(fmt::format(
          "it has other pushes than {}: the servers were not stopped together", first_folder_));
    }
    return {};
  }
  Status Dense(std::size_t /*plane*/, std::uint64_t /*begin*/,
               std::span<const float> /*floats*/) override {
    return {};
  }
  Status Row(std::uint32_t /*table*/, const TableRow& /*row*/) override { return {}; }
  Status Waiting(std::span<const std::byte> /*message*/) override {
    return Refuse("a batch is there that not all trainers have pushed: let them finish it");
  }

 private:
  const std::size_t folders_;
  std::string folder_, first_folder_;
  std::optional<SnapshotHead> first_;
  std::set<std::uint32_t> seen_;
};

// Takes from each old server what belongs to the new one.
class Collector final : public Checker {
 public:
  Collector(const ServerValuesOptions& options, std::size_t folders)
      : Checker(folders), options_(options) {}

  Status Head(const SnapshotHead& head) override {
    PACELINE_TRY(Checker::Head(head));
    theirs_ = DensePiecesOf(head.job.spec, head.job.servers, head.job.index);
    if (state_.values == nullptr) PACELINE_TRY(Begin(head));
    DenseStore& dense = state_.values->dense();
    dense.SetSteps(std::max(dense.steps(), head.steps));
    return {};
  }

  Status Dense(std::size_t plane, std::uint64_t begin, std::span<const float> floats) override {
    std::uint64_t at = 0;  // of their piece, in their memory
    for (const DensePiece& piece : theirs_) {
      const std::uint64_t from = std::max(begin, at);
      const std::uint64_t to = std::min(begin + floats.size(), at + piece.count);
      if (from < to) {
        Keep(plane, piece.begin + (from - at),
             floats.subspan(static_cast<std::size_t>(from - begin),
                            static_cast<std::size_t>(to - from)));
      }
      at += piece.count;
    }
    return {};
  }

  Status Row(std::uint32_t table, const TableRow& row) override {
    if (algo::ServerOf(row.id, options_.servers) != options_.index) return {};
    return state_.values->table(table).Restore(row);
  }

  void Evicted(std::uint32_t table, std::uint64_t rows) override {
    // Nobody knows any more which ids they were; the first server remembers how many.
    if (options_.index == 0) state_.values->AddEvicted(table, rows);
  }
  void WithoutRow(std::uint32_t table, const WaitingId& id) override {
    if (algo::ServerOf(id.id, options_.servers) == options_.index) {
      state_.values->table(table).RestoreWaiting(id);
    }
  }

  ServerState Take() { return std::move(state_); }

 private:
  Status Begin(const SnapshotHead& head) {
    PACELINE_ASSIGN(state_.values, ServerValues::Open(head.job.spec, options_));
    state_.initialised = true;
    state_.progress = head.progress;
    ours_ = DensePiecesOf(head.job.spec, options_.servers, options_.index);
    return {};
  }

  // `floats` begin at `begin` of the job's buffer.
  void Keep(std::size_t plane, std::uint64_t begin, std::span<const float> floats) {
    std::uint64_t at = 0;  // of our piece, in our memory
    for (const DensePiece& piece : ours_) {
      const std::uint64_t from = std::max(begin, piece.begin);
      const std::uint64_t to = std::min(begin + floats.size(), piece.begin + piece.count);
      if (from < to) {
        state_.values->dense().WritePlane(plane, static_cast<std::size_t>(at + from - piece.begin),
                                          floats.subspan(static_cast<std::size_t>(from - begin),
                                                         static_cast<std::size_t>(to - from)));
      }
      at += piece.count;
    }
  }

  const ServerValuesOptions options_;
  ServerState state_;
  std::vector<DensePiece> ours_, theirs_;
};

Status ReadFolders(disk::FileSystem& fs, const std::vector<std::string>& folders, Checker& into) {
  for (const std::string& folder : folders) {
    PACELINE_ASSIGN(const auto snapshots, ListSnapshots(fs, folder));
    if (snapshots.empty()) return Refuse(folder + " has no snapshot of a server");
    PACELINE_ASSIGN(const std::uint64_t left, CountRecords(fs, folder, snapshots.back()));
    if (left > 0) {
      return Refuse(
          fmt::format("{} has {} log records behind its snapshot: start this server as it "
                      "was and stop it properly first",
                      folder, left));
    }
    into.Open(folder);
    PACELINE_TRY(ReadSnapshot(fs, folder, snapshots.back(), into));
  }
  return {};
}

}  // namespace

Result<ServerState> LoadOtherServers(disk::FileSystem& fs, const std::vector<std::string>& folders,
                                     const ServerValuesOptions& options) {
  Collector collector(options, folders.size());
  PACELINE_TRY(ReadFolders(fs, folders, collector));
  return collector.Take();
}

Status CheckOtherServers(disk::FileSystem& fs, const std::vector<std::string>& folders) {
  Checker checker(folders.size());
  return ReadFolders(fs, folders, checker);
}

}  // namespace paceline::ps

#include "ps/snapshot_writer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ps/change_log.h"
#include "ps/change_payload.h"
#include "wire/bytes.h"

namespace paceline::ps {

namespace {

constexpr std::string_view kSnapshotPrefix = "snapshot-", kTemporary = ".tmp";
// Of floats and rows in one change, and of what is written at once.
constexpr std::size_t kSnapshotChunkBytes = std::size_t{1} << 20;

// Appends changes to a file.
class ChangeFile {
 public:
  ChangeFile(disk::WritableFile& file, std::uint64_t number)
      : file_(file), pending_(EncodeSegmentHeader(number)) {}

  Status Append(ChangeType type, std::span<const std::byte> payload) {
    PACELINE_TRY(
        CutChange(type, ++changes_, payload, kMaxRecordPayload, [&](const LogRecord& record) {
          EncodeRecord(record, pending_);
          return pending_.size() < kSnapshotChunkBytes ? Status() : WriteOut();
        }));
    return {};
  }
  Status Finish() {
    wire::ByteWriter end;
    end.Number(changes_);
    PACELINE_TRY(Append(ChangeType::kEnd, end.Take()));
    PACELINE_TRY(WriteOut());
    PACELINE_TRY(file_.Sync());
    return file_.Close();
  }

 private:
  Status WriteOut() {
    PACELINE_TRY(file_.Append(pending_));
    pending_.clear();
    return {};
  }

  disk::WritableFile& file_;
  std::vector<std::byte> pending_;
  std::uint64_t changes_ = 0;
};

Status WriteHead(ChangeFile& file, const SnapshotContent& content) {
  const ServerValuesOptions& options = content.values.options();
  PACELINE_TRY(file.Append(ChangeType::kJob, EncodeServerJob({.index = options.index,
                                                              .servers = options.servers,
                                                              .spec = content.values.spec()})));
  wire::ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(content.initialised ? 1 : 0));
  writer.Number(content.dense.steps);
  content.progress.Write(writer);
  return file.Append(ChangeType::kProgress, writer.Take());
}

Status WriteDense(ChangeFile& file, const DenseCopy& dense) {
  for (std::size_t plane = 0; plane < dense.planes.size(); ++plane) {
    const std::span<const float> floats = dense.planes[plane];
    for (std::size_t begin = 0; begin < floats.size();) {
      const std::size_t count =
          std::min(kSnapshotChunkBytes / sizeof(float), floats.size() - begin);
      wire::ByteWriter writer;
      writer.Number(static_cast<std::uint32_t>(plane));
      writer.Number(std::uint64_t{begin});
      writer.Bytes(std::as_bytes(floats.subspan(begin, count)));
      PACELINE_TRY(file.Append(ChangeType::kDense, writer.Take()));
      begin += count;
    }
  }
  return {};
}

Status WriteRows(ChangeFile& file, std::uint32_t number, FrozenRows& frozen) {
  wire::ByteWriter rows;
  std::size_t bytes = 0;
  const auto flush = [&] {
    wire::ByteWriter writer;
    writer.Number(number);
    writer.Bytes(rows.Take());
    rows = {};
    bytes = 0;
    return file.Append(ChangeType::kRows, writer.Take());
  };
  PACELINE_TRY(frozen.ForEachRow([&](const TableRow& row) {
    rows.Number(static_cast<std::uint64_t>(row.id));
    rows.Number(row.tick);
    rows.Bytes(std::as_bytes(row.values));
    rows.Bytes(std::as_bytes(row.state));
    bytes += row.values.size_bytes() + row.state.size_bytes();
    return bytes < kSnapshotChunkBytes ? Status() : flush();
  }));
  return bytes == 0 ? Status() : flush();
}

// Says nothing where there is nothing to say.
Status WriteCounts(ChangeFile& file, std::uint32_t number, std::uint64_t evicted,
                   std::span<const WaitingId> waiting) {
  constexpr std::size_t kAtOnce = kSnapshotChunkBytes / 16;
  while (evicted > 0 || !waiting.empty()) {
    wire::ByteWriter writer;
    writer.Number(number);
    writer.Number(std::exchange(evicted, 0));
    for (const WaitingId& id : waiting.first(std::min(kAtOnce, waiting.size()))) {
      writer.Number(static_cast<std::uint64_t>(id.id));
      writer.Number(id.tick);
      writer.Number(id.touches);
    }
    waiting = waiting.subspan(std::min(kAtOnce, waiting.size()));
    PACELINE_TRY(file.Append(ChangeType::kCounts, writer.Take()));
  }
  return {};
}

Status WriteAll(disk::WritableFile& out, std::uint64_t number, const SnapshotContent& content) {
  ChangeFile file(out, number);
  PACELINE_TRY(WriteHead(file, content));
  PACELINE_TRY(WriteDense(file, content.dense));
  for (std::uint32_t table = 0; table < content.tables.size(); ++table) {
    PACELINE_TRY(
        WriteCounts(file, table, content.evicted[table], content.tables[table]->waiting()));
    PACELINE_TRY(WriteRows(file, table, *content.tables[table]));
  }
  PACELINE_TRY(content.rounds.ForEach([&](std::span<const std::byte> message) {
    return file.Append(ChangeType::kWaiting, message);
  }));
  return file.Finish();
}

// The number of a snapshot with this name, finished or not.
std::optional<std::uint64_t> NumberOf(std::string_view name, bool temporary) {
  if (!name.starts_with(kSnapshotPrefix) || name.ends_with(kTemporary) != temporary)
    return std::nullopt;
  name.remove_prefix(kSnapshotPrefix.size());
  if (temporary) name.remove_suffix(kTemporary.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string SnapshotPath(const std::string& folder, std::uint64_t number) {
  return fmt::format("{}/{}{:016}", folder, kSnapshotPrefix, number);
}

Result<std::vector<std::uint64_t>> ListSnapshots(disk::FileSystem& fs, const std::string& folder) {
  PACELINE_ASSIGN(const auto entries, fs.List(folder));
  std::vector<std::uint64_t> numbers;
  for (const disk::DirEntry& entry : entries) {
    if (const auto number = NumberOf(entry.name, false)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

Status RemoveSnapshotsBefore(disk::FileSystem& fs, const std::string& folder,
                             std::uint64_t number) {
  PACELINE_ASSIGN(const auto entries, fs.List(folder));
  for (const disk::DirEntry& entry : entries) {
    const auto finished = NumberOf(entry.name, false);
    const bool old = finished && *finished < number;
    if (old || NumberOf(entry.name, true)) PACELINE_TRY(fs.RemoveAll(folder + "/" + entry.name));
  }
  return fs.SyncDir(folder);
}

Status WriteSnapshot(disk::FileSystem& fs, const std::string& folder, std::uint64_t number,
                     const SnapshotContent& content) {
  const std::string path = SnapshotPath(folder, number);
  const std::string temporary = path + std::string(kTemporary);
  PACELINE_TRY(fs.RemoveAll(temporary));
  PACELINE_ASSIGN(const auto file, fs.Create(temporary));
  PACELINE_TRY(WriteAll(*file, number, content));
  PACELINE_TRY(fs.Rename(temporary, path));
  return fs.SyncDir(folder);
}

}  // namespace paceline::ps

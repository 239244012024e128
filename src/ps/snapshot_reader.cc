#include "ps/snapshot_reader.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "algo/table_partition.h"
#include "ps/change_log.h"
#include "ps/snapshot_writer.h"
#include "wire/bytes.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

Status DamagedSnapshot(const std::string& why) { return Status::Error(Code::kBadCheckpoint, why); }

// Checks the changes of a snapshot and takes them apart.
class SnapshotReader {
 public:
  explicit SnapshotReader(SnapshotSink& sink) : sink_(sink) {}

  Status Take(ChangeType type, std::span<const std::byte> payload) {
    ++changes_;
    if (ended_) return DamagedSnapshot("something behind the end");
    if (changes_ == 1) return TakeJob(type, payload);
    if (changes_ == 2) return TakeProgress(type, payload);
    switch (type) {
      case ChangeType::kDense: return TakeDense(payload);
      case ChangeType::kRows: return TakeRows(payload);
      case ChangeType::kCounts: return TakeCounts(payload);
      case ChangeType::kWaiting: return sink_.Waiting(payload);
      case ChangeType::kEnd: return TakeEnd(payload);
      default: return DamagedSnapshot(fmt::format("a change of type {}", static_cast<int>(type)));
    }
  }
  bool ended() const { return ended_; }

 private:
  Status TakeJob(ChangeType type, std::span<const std::byte> payload) {
    if (type != ChangeType::kJob) return DamagedSnapshot("it does not begin with the job");
    PACELINE_ASSIGN(head_.job, DecodeServerJob(payload));
    for (const DensePiece& piece :
         DensePiecesOf(head_.job.spec, head_.job.servers, head_.job.index)) {
      floats_ += piece.count;
    }
    return {};
  }
  Status TakeProgress(ChangeType type, std::span<const std::byte> payload) {
    if (type != ChangeType::kProgress)
      return DamagedSnapshot("the progress of the trainers is missing");
    wire::ByteReader reader(payload);
    const auto initialised = reader.Number<std::uint8_t>();
    if (initialised > 1) reader.Fail();
    head_.initialised = initialised == 1;
    head_.steps = reader.Number<std::uint64_t>();
    head_.progress = Progress::Read(reader, head_.job.spec.trainers);
    PACELINE_TRY(reader.Finish("the progress of the trainers"));
    return sink_.Head(head_);
  }
  Status TakeDense(std::span<const std::byte> payload) {
    constexpr std::size_t kFields = 12;
    if (payload.size() < kFields) return DamagedSnapshot("dense floats are cut off");
    const std::uint32_t plane = wire::LoadU32(payload.data());
    const std::uint64_t begin = wire::LoadU64(payload.data() + 4);
    const auto bytes = payload.subspan(kFields);
    const std::size_t count = bytes.size() / sizeof(float);
    const bool fits = plane < DensePlanes(head_.job.spec.dense_optimizer.kind) &&
                      begin <= floats_ && count <= floats_ - begin &&
                      count * sizeof(float) == bytes.size();
    if (!fits) return DamagedSnapshot(fmt::format("{} dense floats from {} on", count, begin));
    buffer_.resize(count);
    if (count > 0) std::memcpy(buffer_.data(), bytes.data(), bytes.size());
    return sink_.Dense(plane, begin, buffer_);
  }
  Status TakeRows(std::span<const std::byte> payload) {
    if (payload.size() < sizeof(std::uint32_t)) return DamagedSnapshot("rows are cut off");
    const std::uint32_t table = wire::LoadU32(payload.data());
    if (table >= head_.job.spec.tables.size())
      return DamagedSnapshot(fmt::format("rows of table {}", table));
    constexpr std::size_t kFields = 12;  // id and tick
    const TableOptions& options = head_.job.spec.tables[table].options;
    const std::size_t state = StateFloats(options.optimizer.kind, options.dim);
    buffer_.resize(options.dim + state);
    const std::size_t row_bytes = kFields + buffer_.size() * sizeof(float);
    auto left = payload.subspan(sizeof(std::uint32_t));
    if (left.size() % row_bytes != 0) return DamagedSnapshot("a row is cut off");
    for (; !left.empty(); left = left.subspan(row_bytes)) {
      const auto id = static_cast<std::int64_t>(wire::LoadU64(left.data()));
      PACELINE_TRY(CheckOwner(id));
      std::memcpy(buffer_.data(), left.data() + kFields, buffer_.size() * sizeof(float));
      const std::span<const float> floats(buffer_);
      PACELINE_TRY(sink_.Row(table, {.id = id,
                                     .tick = wire::LoadU32(left.data() + 8),
                                     .values = floats.first(options.dim),
                                     .state = floats.subspan(options.dim)}));
    }
    return {};
  }
  Status TakeCounts(std::span<const std::byte> payload) {
    constexpr std::size_t kFields = 12, kIdBytes = 16;
    if (payload.size() < kFields || (payload.size() - kFields) % kIdBytes != 0) {
      return DamagedSnapshot("counts of a table are cut off");
    }
    const std::uint32_t table = wire::LoadU32(payload.data());
    if (table >= head_.job.spec.tables.size()) {
      return DamagedSnapshot(fmt::format("counts of table {}", table));
    }
    sink_.Evicted(table, wire::LoadU64(payload.data() + 4));
    for (auto left = payload.subspan(kFields); !left.empty(); left = left.subspan(kIdBytes)) {
      const WaitingId waiting{.id = static_cast<std::int64_t>(wire::LoadU64(left.data())),
                              .tick = wire::LoadU32(left.data() + 8),
                              .touches = wire::LoadU32(left.data() + 12)};
      PACELINE_TRY(CheckOwner(waiting.id));
      sink_.WithoutRow(table, waiting);
    }
    return {};
  }
  Status CheckOwner(std::int64_t id) const {
    if (algo::ServerOf(id, head_.job.servers) == head_.job.index) return {};
    return DamagedSnapshot(fmt::format("id {} is another server's", id));
  }
  Status TakeEnd(std::span<const std::byte> payload) {
    wire::ByteReader reader(payload);
    if (reader.Number<std::uint64_t>() != changes_ - 1) reader.Fail();
    ended_ = true;
    return reader.Finish("the end");
  }

  SnapshotSink& sink_;
  SnapshotHead head_;
  std::uint64_t floats_ = 0;
  std::uint64_t changes_ = 0;
  bool ended_ = false;
  std::vector<float> buffer_;
};

// Makes the state of the server that wrote the snapshot.
class StateBuilder final : public SnapshotSink {
 public:
  explicit StateBuilder(const ServerValuesOptions& options) : options_(options) {}

  Status Head(const SnapshotHead& head) override {
    if (head.job.index != options_.index || head.job.servers != options_.servers) {
      return Status::Error(
          Code::kMismatch,
          fmt::format("it is of server {} of {}, this is server {} of {}", head.job.index,
                      head.job.servers, options_.index, options_.servers));
    }
    PACELINE_ASSIGN(state_.values, ServerValues::Open(head.job.spec, options_));
    state_.values->dense().SetSteps(head.steps);
    state_.initialised = head.initialised;
    state_.progress = head.progress;
    return {};
  }
  Status Dense(std::size_t plane, std::uint64_t begin, std::span<const float> floats) override {
    state_.values->dense().WritePlane(plane, static_cast<std::size_t>(begin), floats);
    return {};
  }
  Status Row(std::uint32_t table, const TableRow& row) override {
    return state_.values->table(table).Restore(row);
  }
  void Evicted(std::uint32_t table, std::uint64_t rows) override {
    state_.values->AddEvicted(table, rows);
  }
  void WithoutRow(std::uint32_t table, const WaitingId& id) override {
    state_.values->table(table).RestoreWaiting(id);
  }
  Status Waiting(std::span<const std::byte> message) override {
    PACELINE_ASSIGN(const Push push, DecodePush(message));
    PACELINE_TRY(state_.values->Check(push));
    MessageBytes copy(message.size() / sizeof(std::uint64_t));
    std::ranges::copy(message, std::as_writable_bytes(std::span(copy)).begin());
    if (state_.rounds.Has(push.batch, push.lease)) return DamagedSnapshot("a push waits twice");
    state_.rounds.Add(push.batch, push.lease,
                      std::make_shared<const MessageBytes>(std::move(copy)));
    return {};
  }
  Result<ServerState> Take() {
    const bool together = state_.values->spec().apply == Apply::kTogether;
    if (!state_.progress.Explains(state_.rounds, together)) {
      return DamagedSnapshot("the pushes that wait are not those that trainers have sent");
    }
    return std::move(state_);
  }

 private:
  const ServerValuesOptions options_;
  ServerState state_;
};

class NoSink final : public SnapshotSink {
 public:
  Status Head(const SnapshotHead& /*head*/) override { return {}; }
  Status Dense(std::size_t /*plane*/, std::uint64_t /*begin*/,
               std::span<const float> /*floats*/) override {
    return {};
  }
  Status Row(std::uint32_t /*table*/, const TableRow& /*row*/) override { return {}; }
  Status Waiting(std::span<const std::byte> /*message*/) override { return {}; }
};

}  // namespace

Status ReadSnapshot(disk::FileSystem& fs, const std::string& folder, std::uint64_t number,
                    SnapshotSink& sink) {
  const std::string path = SnapshotPath(folder, number);
  SnapshotReader reader(sink);
  ChangeAssembler assembler([&](ChangeType type, std::span<const std::byte> payload) {
    return reader.Take(type, payload);
  });
  const auto content = ReadSegment(fs, path, number,
                                   [&](const LogRecord& record) { return assembler.Take(record); });
  if (!content.ok()) {
    const Code code = content.status().code();
    if (code == Code::kDisk || code == Code::kMismatch) return content.status().Wrap(path);
    return DamagedSnapshot(path + ": " + content.status().message());
  }
  if (content->torn() || !reader.ended()) {
    return DamagedSnapshot(
        fmt::format("{}:{}: damaged, or its end is missing", path, content->whole_bytes));
  }
  return {};
}

Status VerifySnapshot(disk::FileSystem& fs, const std::string& folder, std::uint64_t number) {
  NoSink sink;
  return ReadSnapshot(fs, folder, number, sink);
}

Result<ServerState> LoadSnapshot(disk::FileSystem& fs, const std::string& folder,
                                 std::uint64_t number, const ServerValuesOptions& options) {
  StateBuilder builder(options);
  PACELINE_TRY(ReadSnapshot(fs, folder, number, builder));
  auto state = builder.Take();
  return state.ok() ? std::move(state) : state.status().Wrap(SnapshotPath(folder, number));
}

}  // namespace paceline::ps

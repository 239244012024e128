#include "ps/protocol.h"

#include <cstring>

#include "base/check.h"
#include "ps/message_fields.h"

namespace paceline::ps {

namespace {

constexpr std::uint32_t kTrain = 1, kDense = 2, kMapped = 4, kFromLast = 8;
constexpr std::size_t kPullHeadBytes = 32, kRowsHeadBytes = 16;
constexpr std::uint32_t kMaxPulledTables = 4096;

Status NotOurs(const char* what) {
  return Status::Error(Code::kProtocol, std::string(what) + " that neither side writes");
}

}  // namespace

MessageBytes EncodePull(const PullCall& call) {
  std::size_t bytes = kPullHeadBytes;
  for (const PullCall::Rows& rows : call.rows) bytes += kRowsHeadBytes + rows.ids.size_bytes();
  internal::FieldWriter writer(bytes);
  writer.Number(call.trainer);
  writer.Number(call.min_version);
  writer.Number(call.own_batches);
  writer.Number((call.touch == Touch::kTrain ? kTrain : 0U) | (call.dense ? kDense : 0U) |
                (call.dense_is_mapped ? kMapped : 0U) |
                (call.order == DenseOrder::kFromLast ? kFromLast : 0U));
  writer.Number(static_cast<std::uint32_t>(call.rows.size()));
  for (const PullCall::Rows& rows : call.rows) {
    writer.Number(rows.table);
    writer.Number(std::uint32_t{0});
    writer.Number(std::uint64_t{rows.ids.size()});
    writer.Array(rows.ids);
  }
  return writer.Take();
}

Result<PullCall> DecodePull(std::span<const std::byte> message) {
  internal::FieldReader reader(message);
  PullCall call;
  call.trainer = reader.Number<std::uint64_t>();
  call.min_version = reader.Number<std::uint64_t>();
  call.own_batches = reader.Number<std::uint64_t>();
  const auto flags = reader.Number<std::uint32_t>();
  const auto tables = reader.Number<std::uint32_t>();
  call.touch = (flags & kTrain) != 0 ? Touch::kTrain : Touch::kPeek;
  call.dense = (flags & kDense) != 0;
  call.dense_is_mapped = (flags & kMapped) != 0;
  call.order = (flags & kFromLast) != 0 ? DenseOrder::kFromLast : DenseOrder::kFromFirst;
  if (flags > (kTrain | kDense | kMapped | kFromLast) || tables > kMaxPulledTables) reader.Fail();
  for (std::uint32_t i = 0; i < tables && reader.ok(); ++i) {
    PullCall::Rows rows;
    rows.table = reader.Number<std::uint32_t>();
    if (reader.Number<std::uint32_t>() != 0) reader.Fail();
    rows.ids = reader.Array<std::int64_t>(reader.Number<std::uint64_t>());
    call.rows.push_back(rows);
  }
  if (!reader.ok() || !reader.at_end()) return NotOurs("a pull");
  return call;
}

void WritePulledHead(std::span<std::byte> message, const PulledNumbers& numbers) {
  wire::StoreLittle(message.data(), numbers.version);
  wire::StoreLittle(message.data() + 8, numbers.pushes);
}

Result<Pulled> DecodePulled(std::span<const std::byte> message, std::size_t floats) {
  if (message.size() != kPulledHeadBytes + floats * sizeof(float)) {
    return NotOurs("an answer to a pull");
  }
  return Pulled{{wire::LoadLittle<std::uint64_t>(message.data()),
                 wire::LoadLittle<std::uint64_t>(message.data() + 8)},
                {reinterpret_cast<const float*>(message.data() + kPulledHeadBytes), floats}};
}

Result<std::uint64_t> TakeChanges(std::span<const std::byte>& message) {
  if (message.size() < kChangesBytes) return NotOurs("an answer to a pull");
  const auto changes =
      wire::LoadLittle<std::uint64_t>(message.data() + message.size() - kChangesBytes);
  message = message.first(message.size() - kChangesBytes);
  return changes;
}

std::vector<std::byte> EncodeNumbers(std::span<const std::uint64_t> numbers) {
  std::vector<std::byte> bytes(numbers.size_bytes());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    wire::StoreLittle(bytes.data() + i * sizeof(std::uint64_t), numbers[i]);
  }
  return bytes;
}

Result<std::vector<std::uint64_t>> DecodeNumbers(std::span<const std::byte> message,
                                                 std::size_t count) {
  if (message.size() != count * sizeof(std::uint64_t)) return NotOurs("numbers");
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = wire::LoadLittle<std::uint64_t>(message.data() + i * sizeof(std::uint64_t));
  }
  return numbers;
}

MessageBytes EncodeChanged(const ChangedRows& rows) {
  const std::span<const std::int64_t> ids(rows.ids);
  const std::span<const float> values(rows.values);
  internal::FieldWriter writer(24 + ids.size_bytes() + internal::Padded(values.size_bytes()));
  writer.Number(std::uint64_t{rows.restarted ? 1U : 0U});
  writer.Number(std::uint64_t{ids.size()});
  writer.Number(std::uint64_t{values.size()});
  writer.Array(ids);
  writer.Array(values);
  return writer.Take();
}

Result<ChangedRows> DecodeChanged(std::span<const std::byte> message, std::size_t dim) {
  internal::FieldReader reader(message);
  const auto restarted = reader.Number<std::uint64_t>();
  const auto count = reader.Number<std::uint64_t>();
  const auto floats = reader.Number<std::uint64_t>();
  const auto ids = reader.Array<std::int64_t>(count);
  const auto values = reader.Array<float>(floats);
  if (!reader.ok() || !reader.at_end() || restarted > 1 || (restarted == 1 && !ids.empty()) ||
      values.size() != ids.size() * dim) {
    return NotOurs("changed rows");
  }
  return ChangedRows{restarted == 1, {ids.begin(), ids.end()}, {values.begin(), values.end()}};
}

}  // namespace paceline::ps

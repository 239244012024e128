#include "ps/push_message.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernel/copy.h"
#include "kernel/reduce.h"
#include "ps/message_fields.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

using internal::kAlignment, internal::Padded;

constexpr std::uint32_t kLast = 1, kDeltas = 2, kSave = 4;
constexpr std::size_t kHeaderBytes = 56, kTableHeaderBytes = 16;
constexpr std::size_t kDenseCountAt = 40;  // in the header
constexpr std::uint32_t kMaxPushedTables = 4096;

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

TablePart ReadTable(internal::FieldReader& reader) {
  TablePart part;
  part.table = reader.Number<std::uint32_t>();
  part.dim = reader.Number<std::uint32_t>();
  part.ids = reader.Array<std::int64_t>(reader.Number<std::uint64_t>());
  if (part.dim == 0) {
    reader.Fail();
    return part;
  }
  // A message holds fewer than 2^32 ids, 8 bytes each: the product does not overflow.
  part.values = reader.Array<float>(std::uint64_t{part.dim} * part.ids.size());
  return part;
}

}  // namespace

bool operator==(const TablePart& a, const TablePart& b) {
  return a.table == b.table && a.dim == b.dim && std::ranges::equal(a.ids, b.ids) &&
         SameBits(a.values, b.values);
}

bool operator==(const Push& a, const Push& b) {
  return a.lease == b.lease && a.batch == b.batch && a.version == b.version &&
         std::bit_cast<std::uint32_t>(a.learning_rate) ==
             std::bit_cast<std::uint32_t>(b.learning_rate) &&
         a.last == b.last && a.deltas == b.deltas && a.save == b.save && a.trainers == b.trainers &&
         a.tables == b.tables && SameBits(a.dense, b.dense);
}

MessageBytes EncodePush(const Push& push) {
  MessageBytes message(PushEncoder::Bytes(push, push.dense.size()) / sizeof(std::uint64_t));
  PushEncoder(push, push.dense.size(), std::as_writable_bytes(std::span(message)))
      .Append(push.dense);
  return message;
}

std::size_t PushEncoder::Bytes(const Push& push, std::size_t dense_floats) {
  std::size_t bytes = kHeaderBytes + Padded(dense_floats * sizeof(float));
  for (const TablePart& part : push.tables) {
    PACELINE_CHECK(part.values.size() == part.ids.size() * part.dim, "a row for each id");
    bytes += kTableHeaderBytes + part.ids.size_bytes() + Padded(part.values.size_bytes());
  }
  return bytes;
}

PushEncoder::PushEncoder(const Push& push, std::size_t dense_floats, std::span<std::byte> message)
    : message_(message),
      at_(message.size() - Padded(dense_floats * sizeof(float))),
      missing_(dense_floats) {
  internal::FieldWriter writer(message.first(at_));
  writer.Number(push.lease);
  writer.Number(push.batch);
  writer.Number(push.version);
  writer.Number(std::bit_cast<std::uint32_t>(push.learning_rate));
  writer.Number((push.last ? kLast : 0U) | (push.deltas ? kDeltas : 0U) | (push.save ? kSave : 0U));
  writer.Number(push.trainers);
  writer.Number(std::uint64_t{dense_floats});
  writer.Number(std::uint64_t{push.tables.size()});
  for (const TablePart& part : push.tables) {
    writer.Number(part.table);
    writer.Number(part.dim);
    writer.Number(std::uint64_t{part.ids.size()});
    writer.Array(part.ids);
    writer.Array(part.values);
  }
  writer.Finish();
  const std::size_t end = at_ + dense_floats * sizeof(float);
  std::ranges::fill(message.subspan(end), std::byte{0});
}

void PushEncoder::Append(std::span<const float> floats) {
  PACELINE_CHECK(floats.size() <= missing_, "as many dense floats as were announced");
  if (floats.empty()) return;
  kernel::CopyPart(message_.subspan(at_, floats.size_bytes()), std::as_bytes(floats),
                   message_.size());
  at_ += floats.size_bytes();
  missing_ -= floats.size();
}

Result<Push> DecodePush(std::span<const std::byte> bytes) {
  PACELINE_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment == 0,
                 "numbers are used in place");
  internal::FieldReader reader(bytes);
  Push push;
  push.lease = reader.Number<std::uint64_t>();
  push.batch = reader.Number<std::uint64_t>();
  push.version = reader.Number<std::uint64_t>();
  push.learning_rate = std::bit_cast<float>(reader.Number<std::uint32_t>());
  const auto flags = reader.Number<std::uint32_t>();
  push.last = (flags & kLast) != 0;
  push.deltas = (flags & kDeltas) != 0;
  push.save = (flags & kSave) != 0;
  push.trainers = reader.Number<std::uint64_t>();
  const auto dense = reader.Number<std::uint64_t>();
  const auto tables = reader.Number<std::uint64_t>();
  const bool known = flags <= (kLast | kDeltas | kSave);
  if (!known || push.trainers == 0 || tables > kMaxPushedTables) reader.Fail();
  for (std::uint64_t i = 0; i < tables && reader.ok(); ++i)
    push.tables.push_back(ReadTable(reader));
  push.dense = reader.Array<float>(dense);
  if (!reader.ok() || !reader.at_end()) {
    return Status::Error(Code::kProtocol, "a push that no trainer has written");
  }
  return push;
}

void ArrivingPush::See(std::span<const std::byte> so_far, std::size_t bytes) {
  if (so_far.empty()) *this = {};
  complete_ = so_far.size() == bytes;
  if (so_far.size() < kHeaderBytes) return;
  const auto count = wire::LoadLittle<std::uint64_t>(so_far.data() + kDenseCountAt);
  if (bytes % kAlignment != 0 || count > (bytes - kHeaderBytes) / sizeof(float)) {
    finite_ = false;  // whoever decodes it refuses it
    return;
  }
  const std::size_t floats = static_cast<std::size_t>(count);
  const std::size_t begin = bytes - Padded(floats * sizeof(float));
  const std::size_t first = seen_ <= begin ? 0 : (seen_ - begin) / sizeof(float);
  const std::size_t end =
      so_far.size() <= begin ? 0 : std::min(floats, (so_far.size() - begin) / sizeof(float));
  seen_ = so_far.size();
  if (first >= end) return;
  const auto* const dense = reinterpret_cast<const float*>(so_far.data() + begin);
  finite_ = finite_ && kernel::AllFinite({dense + first, end - first});
}

}  // namespace paceline::ps

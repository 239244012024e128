#include "ps/push_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

// Arrays are used as they lie in the message.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kLast = 1, kDeltas = 2;
constexpr std::size_t kHeaderBytes = 56, kTableHeaderBytes = 16, kAlignment = 8;
constexpr std::uint32_t kMaxTables = 4096;

constexpr std::size_t Padded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Writes fields one after the other; arrays are padded with zeros.
class Writer {
 public:
  explicit Writer(std::size_t bytes)
      : message_(bytes / kAlignment), at_(reinterpret_cast<std::byte*>(message_.data())) {}

  template <typename T>
  void Number(T value) {
    wire::StoreLittle(at_, value);
    at_ += sizeof(T);
  }
  template <typename T>
  void Array(std::span<const T> values) {
    if (!values.empty()) std::memcpy(at_, values.data(), values.size_bytes());
    at_ += Padded(values.size_bytes());
  }
  MessageBytes Take() {
    PACELINE_CHECK(at_ == reinterpret_cast<std::byte*>(message_.data() + message_.size()),
                   "the size was counted right");
    return std::move(message_);
  }

 private:
  MessageBytes message_;
  std::byte* at_;
};

// Reads them back; after the first that does not fit everything is empty and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T Number() {
    const auto bytes = Take(sizeof(T));
    return bytes.empty() ? T{0} : wire::LoadLittle<T>(bytes.data());
  }
  template <typename T>
  std::span<const T> Array(std::uint64_t count) {
    if (count > left_.size() / sizeof(T)) {
      Fail();
      return {};
    }
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const auto array = Take(Padded(bytes));
    if (array.empty()) return {};
    const auto padding = array.subspan(bytes);
    if (std::ranges::any_of(padding, [](std::byte b) { return b != std::byte{0}; })) Fail();
    return {reinterpret_cast<const T*>(array.data()), static_cast<std::size_t>(count)};
  }
  void Fail() { failed_ = true; }
  bool ok() const { return !failed_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> Take(std::size_t count) {
    if (failed_ || count > left_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  std::span<const std::byte> left_;
  bool failed_ = false;
};

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

TablePart ReadTable(Reader& reader) {
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
         a.last == b.last && a.deltas == b.deltas && a.trainers == b.trainers &&
         a.tables == b.tables && SameBits(a.dense, b.dense);
}

MessageBytes EncodePush(const Push& push) {
  std::size_t bytes = kHeaderBytes + Padded(push.dense.size_bytes());
  for (const TablePart& part : push.tables) {
    PACELINE_CHECK(part.values.size() == part.ids.size() * part.dim, "a row for each id");
    bytes += kTableHeaderBytes + part.ids.size_bytes() + Padded(part.values.size_bytes());
  }
  Writer writer(bytes);
  writer.Number(push.lease);
  writer.Number(push.batch);
  writer.Number(push.version);
  writer.Number(std::bit_cast<std::uint32_t>(push.learning_rate));
  writer.Number((push.last ? kLast : 0U) | (push.deltas ? kDeltas : 0U));
  writer.Number(push.trainers);
  writer.Number(std::uint64_t{push.dense.size()});
  writer.Number(std::uint64_t{push.tables.size()});
  for (const TablePart& part : push.tables) {
    writer.Number(part.table);
    writer.Number(part.dim);
    writer.Number(std::uint64_t{part.ids.size()});
    writer.Array(part.ids);
    writer.Array(part.values);
  }
  writer.Array(push.dense);
  return writer.Take();
}

Result<Push> DecodePush(std::span<const std::byte> bytes) {
  PACELINE_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment == 0,
                 "numbers are used in place");
  Reader reader(bytes);
  Push push;
  push.lease = reader.Number<std::uint64_t>();
  push.batch = reader.Number<std::uint64_t>();
  push.version = reader.Number<std::uint64_t>();
  push.learning_rate = std::bit_cast<float>(reader.Number<std::uint32_t>());
  const auto flags = reader.Number<std::uint32_t>();
  push.last = (flags & kLast) != 0;
  push.deltas = (flags & kDeltas) != 0;
  push.trainers = reader.Number<std::uint64_t>();
  const auto dense = reader.Number<std::uint64_t>();
  const auto tables = reader.Number<std::uint64_t>();
  if (flags > (kLast | kDeltas) || push.trainers == 0 || tables > kMaxTables) reader.Fail();
  for (std::uint64_t i = 0; i < tables && reader.ok(); ++i)
    push.tables.push_back(ReadTable(reader));
  push.dense = reader.Array<float>(dense);
  if (!reader.ok() || !reader.at_end()) {
    return Status::Error(Code::kProtocol, "a push that no trainer has written");
  }
  return push;
}

}  // namespace paceline::ps

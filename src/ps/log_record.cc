#include "ps/log_record.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

constexpr std::string_view kMagic = "PACEWAL\n";
constexpr std::uint32_t kVersion = 3;
static_assert(kMagic.size() + sizeof(kVersion) + sizeof(std::uint64_t) == kSegmentHeaderBytes);

constexpr std::size_t kFieldBytes = kRecordHeadBytes;
// Of records that are not the caller's: everything before byte `step` is durable.
constexpr std::uint8_t kMarkType = 255;

// Reads a file from front to back through one buffer.
class Window {
 public:
  Window(disk::FileSystem& fs, const std::string& path, std::uint64_t size)
      : fs_(fs), path_(path), size_(size) {}

  std::uint64_t size() const { return size_; }

  // `count` bytes at `offset`, or fewer at the end of the file; valid until the next call.
  Result<std::span<const std::byte>> At(std::uint64_t offset, std::size_t count) {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(count, size_ - std::min(offset, size_)));
    if (offset < begin_ || offset + wanted > begin_ + buffer_.size()) {
      buffer_.resize(std::max(wanted, kChunk));
      PACELINE_ASSIGN(const std::size_t read, fs_.ReadAt(path_, offset, buffer_));
      buffer_.resize(read);
      begin_ = offset;
      if (read < wanted) return Status::Error(Code::kDisk, path_ + ": shorter than its size");
    }
    return std::span<const std::byte>(buffer_).subspan(static_cast<std::size_t>(offset - begin_),
                                                       wanted);
  }

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 20;

  disk::FileSystem& fs_;
  const std::string& path_;
  const std::uint64_t size_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> buffer_;
};

Status CheckHeader(Window& window, const std::string& path, std::uint64_t segment) {
  PACELINE_ASSIGN(const auto bytes, window.At(0, kSegmentHeaderBytes));
  const auto magic = wire::AsBytes(kMagic);
  if (bytes.size() < kSegmentHeaderBytes ||
      !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    return Status::Error(Code::kBadData, path + " is not a write-ahead log");
  }
  if (const auto version = wire::LoadU32(bytes.data() + kMagic.size()); version != kVersion) {
    return Status::Error(Code::kMismatch,
                         fmt::format("{} has version {} of the format, this program reads {}", path,
                                     version, kVersion));
  }
  const std::uint64_t number = wire::LoadU64(bytes.data() + kMagic.size() + sizeof(kVersion));
  if (number == segment) return {};
  return Status::Error(Code::kBadData, fmt::format("{} says that it is segment {}", path, number));
}

// The whole record that begins at `offset`; nothing when there is none.
Result<std::optional<std::span<const std::byte>>> RecordAt(Window& window, std::uint64_t offset) {
  using Found = std::optional<std::span<const std::byte>>;
  PACELINE_ASSIGN(const auto fields, window.At(offset, kFieldBytes));
  if (fields.size() < kFieldBytes) return Found();
  const std::size_t payload = wire::LoadU32(fields.data());
  if (payload > kMaxRecordPayload || payload + kRecordOverhead > window.size() - offset) {
    return Found();
  }
  PACELINE_ASSIGN(const auto record, window.At(offset, payload + kRecordOverhead));
  const auto checked = record.first(record.size() - sizeof(std::uint32_t));
  const bool whole = wire::LoadU32(record.data() + checked.size()) == wire::Crc32c(checked);
  return whole ? Found(record) : Found();
}

LogRecord ParseFields(std::span<const std::byte> fields) {
  return {.type = static_cast<std::uint8_t>(fields[4]),
          .generation = wire::LoadU64(fields.data() + 5),
          .step = wire::LoadU64(fields.data() + 13),
          .payload = {}};
}

LogRecord Parse(std::span<const std::byte> record) {
  LogRecord parsed = ParseFields(record);
  parsed.payload = record.subspan(kFieldBytes, record.size() - kRecordOverhead);
  return parsed;
}

bool IsMark(const LogRecord& record) { return record.type == kMarkType; }

// Nothing behind the bad record at `bad` says that it was durable. What follows the last mark was
// never told durable; of that any part may be missing, since disks write in the order they like.
Status CheckNeverDurable(Window& window, std::uint64_t bad, const std::string& path) {
  for (std::uint64_t at = bad + 1; at + kRecordOverhead <= window.size(); ++at) {
    PACELINE_ASSIGN(const auto fields, window.At(at, kFieldBytes));
    const LogRecord seeming = ParseFields(fields);
    const bool may_be_mark = wire::LoadU32(fields.data()) == 0 && IsMark(seeming);
    if (!may_be_mark || seeming.step <= bad || seeming.step > at) continue;
    PACELINE_ASSIGN(const auto mark, RecordAt(window, at));
    if (!mark) continue;
    return Status::Error(
        Code::kBadCheckpoint,
        fmt::format("{}:{}: damaged: a bad record that was durable, by what is written at {}", path,
                    bad, at));
  }
  return {};
}

}  // namespace

std::vector<std::byte> EncodeSegmentHeader(std::uint64_t segment) {
  wire::ByteWriter writer;
  writer.Bytes(wire::AsBytes(kMagic));
  writer.Number(kVersion);
  writer.Number(segment);
  return writer.Take();
}

void EncodeRecordHead(const LogRecord& record, std::vector<std::byte>& bytes) {
  PACELINE_CHECK(record.payload.size() <= kMaxRecordPayload, "callers cut large changes");
  const std::size_t begin = bytes.size();
  bytes.resize(begin + kRecordHeadBytes);
  std::byte* const at = bytes.data() + begin;
  wire::StoreU32(at, static_cast<std::uint32_t>(record.payload.size()));
  at[4] = static_cast<std::byte>(record.type);
  wire::StoreU64(at + 5, record.generation);
  wire::StoreU64(at + 13, record.step);
}

std::array<std::byte, sizeof(std::uint32_t)> EncodeRecordEnd(std::span<const std::byte> head,
                                                             std::span<const std::byte> payload) {
  std::array<std::byte, sizeof(std::uint32_t)> end{};
  wire::StoreU32(end.data(), wire::Crc32c(payload, wire::Crc32c(head)));
  return end;
}

void EncodeRecord(const LogRecord& record, std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  EncodeRecordHead(record, bytes);
  const auto end = EncodeRecordEnd(std::span(bytes).subspan(begin), record.payload);
  bytes.insert(bytes.end(), record.payload.begin(), record.payload.end());
  bytes.insert(bytes.end(), end.begin(), end.end());
}

std::vector<std::byte> EncodeMark(std::uint64_t durable_bytes) {
  std::vector<std::byte> mark;
  EncodeRecord({.type = kMarkType, .generation = 0, .step = durable_bytes, .payload = {}}, mark);
  return mark;
}

Result<SegmentContent> ReadSegment(disk::FileSystem& fs, const std::string& path,
                                   std::uint64_t segment, const RecordVisitor& visit) {
  PACELINE_ASSIGN(const std::uint64_t size, fs.Size(path));
  Window window(fs, path, size);
  PACELINE_TRY(CheckHeader(window, path, segment));
  SegmentContent content{.whole_bytes = kSegmentHeaderBytes, .file_bytes = size};
  while (content.whole_bytes < size) {
    PACELINE_ASSIGN(const auto record, RecordAt(window, content.whole_bytes));
    if (!record) break;
    const LogRecord parsed = Parse(*record);
    content.whole_bytes += record->size();
    if (IsMark(parsed)) continue;
    PACELINE_TRY(visit(parsed));
    content.records += 1;
  }
  if (content.torn()) PACELINE_TRY(CheckNeverDurable(window, content.whole_bytes, path));
  return content;
}

}  // namespace paceline::ps

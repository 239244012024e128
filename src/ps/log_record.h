#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"

// The bytes of a server's write-ahead log; docs/formats.md describes them.
namespace paceline::ps {

inline constexpr std::size_t kSegmentHeaderBytes = 20;  // magic, version, number of the segment
inline constexpr std::size_t kRecordOverhead = 25;      // length, type, generation, step, checksum
// Larger changes are logged in parts, so that reading needs a bounded buffer.
inline constexpr std::size_t kMaxRecordPayload = std::size_t{64} << 20;

// One change of a server's state. What `type` and the payload mean is the server's business.
struct LogRecord {
  std::uint8_t type = 0;  // below 255
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  std::span<const std::byte> payload;  // at most kMaxRecordPayload
};

std::vector<std::byte> EncodeSegmentHeader(std::uint64_t segment);
// Adds the record to `bytes`.
void EncodeRecord(const LogRecord& record, std::vector<std::byte>& bytes);
// The same in three parts: what comes before the payload, the payload itself, and its checksum,
// which is of the other two.
inline constexpr std::size_t kRecordHeadBytes = kRecordOverhead - sizeof(std::uint32_t);
void EncodeRecordHead(const LogRecord& record, std::vector<std::byte>& bytes);
std::array<std::byte, sizeof(std::uint32_t)> EncodeRecordEnd(std::span<const std::byte> head,
                                                             std::span<const std::byte> payload);

// A record that says how much of the segment is durable, for ReadSegment().
std::vector<std::byte> EncodeMark(std::uint64_t durable_bytes);

// What a segment holds.
struct SegmentContent {
  std::uint64_t records = 0;
  std::uint64_t whole_bytes = 0;  // what lies behind was being written when the server died
  std::uint64_t file_bytes = 0;

  bool torn() const { return whole_bytes < file_bytes; }
};

// Gives every whole record to `visit`, in order, and stops at its first error. What no mark calls
// durable may be cut off or damaged, because it may have been in the making; damage before that
// nothing explains: kBadCheckpoint with file and offset. kBadData: not a segment, or
// another one than `segment`; kMismatch: of another version.
using RecordVisitor = std::function<Status(const LogRecord&)>;
Result<SegmentContent> ReadSegment(disk::FileSystem& fs, const std::string& path,
                                   std::uint64_t segment, const RecordVisitor& visit);

}  // namespace paceline::ps

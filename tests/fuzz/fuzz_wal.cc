// A segment of a write-ahead log: what is read must be what EncodeRecord writes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "one_file.h"
#include "ps/log_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::ps;
  const auto bytes = std::as_bytes(std::span(data, size));
  paceline::fuzz::OneFile file(bytes);
  std::vector<std::byte> again = EncodeSegmentHeader(1);
  const auto content = ReadSegment(file, "wal", 1, [&](const LogRecord& record) {
    EncodeRecord(record, again);
    return paceline::Status();
  });
  if (!content.ok()) return 0;
  PACELINE_CHECK(content->whole_bytes == again.size() && content->file_bytes == size,
                 "every whole record is read");
  PACELINE_CHECK(std::equal(again.begin(), again.end(), bytes.begin()), "as it was written");
  return 0;
}

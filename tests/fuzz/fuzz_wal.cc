// A segment of a write-ahead log: what is read must be what EncodeRecord writes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "disk/file_system.h"
#include "ps/log_record.h"

namespace {

using paceline::Code;
using paceline::Result;
using paceline::Status;

// One file, whose bytes are the input. Reading needs no more.
class OneFile final : public paceline::disk::FileSystem {
 public:
  explicit OneFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<std::uint64_t> Size(const std::string&) override { return bytes_.size(); }
  Result<std::size_t> ReadAt(const std::string&, std::uint64_t offset,
                             std::span<std::byte> into) override {
    const auto from = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(from.size(), into.size());
    std::copy_n(from.begin(), count, into.begin());
    return count;
  }

  Result<std::unique_ptr<paceline::disk::WritableFile>> Create(const std::string&) override {
    return ReadOnly();
  }
  Result<std::unique_ptr<paceline::disk::WritableFile>> OpenForAppend(const std::string&) override {
    return ReadOnly();
  }
  Status SyncDir(const std::string&) override { return ReadOnly(); }
  Status Rename(const std::string&, const std::string&) override { return ReadOnly(); }
  Status MakeDir(const std::string&) override { return ReadOnly(); }
  Status RemoveAll(const std::string&) override { return ReadOnly(); }
  Result<bool> Exists(const std::string&) override { return true; }
  Result<std::vector<paceline::disk::DirEntry>> List(const std::string&) override {
    return ReadOnly();
  }

 private:
  static Status ReadOnly() { return Status::Error(Code::kDisk, "read only"); }

  std::span<const std::byte> bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::ps;
  const auto bytes = std::as_bytes(std::span(data, size));
  OneFile file(bytes);
  std::vector<std::byte> again = EncodeSegmentHeader(1);
  const auto content = ReadSegment(file, "wal", 1, [&](const LogRecord& record) {
    EncodeRecord(record, again);
    return Status();
  });
  if (!content.ok()) return 0;
  PACELINE_CHECK(content->whole_bytes == again.size() && content->file_bytes == size,
                 "every whole record is read");
  PACELINE_CHECK(std::equal(again.begin(), again.end(), bytes.begin()), "as it was written");
  return 0;
}

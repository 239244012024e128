// Any bytes as a state log: once as they are, and once behind a header and with the checksum of
// each record set right; otherwise the checksums would hide the decoder from the fuzzer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "store/state_log.h"
#include "wire/endian.h"

namespace {

using namespace paceline::store;
using Bytes = std::vector<std::byte>;

void Check(std::span<const std::byte> bytes) {
  const auto log = DecodeLog(bytes, "log");
  if (!log.ok()) return;
  PACELINE_CHECK(log->records > 0 && log->whole_bytes <= bytes.size(), "whole records in the file");
  const auto whole = DecodeLog(bytes.first(log->whole_bytes), "log");
  PACELINE_CHECK(whole.ok() && whole->newest == log->newest && whole->records == log->records,
                 "the tail does not matter");
  const Bytes last = EncodeRecord(log->newest);
  PACELINE_CHECK(std::equal(last.rbegin(), last.rend(),
                            std::make_reverse_iterator(
                                bytes.begin() + static_cast<std::ptrdiff_t>(log->whole_bytes))),
                 "one way to write a record");
}

Bytes Sealed(std::span<const std::byte> records) {
  Bytes log = EncodeLogHeader();
  while (records.size() >= kRecordHeaderBytes) {
    const std::size_t length = paceline::wire::LoadU16(records.data());
    records = records.subspan(kRecordHeaderBytes);
    if (length > records.size()) break;
    const Bytes record = EncodeRecord({reinterpret_cast<const char*>(records.data()), length});
    log.insert(log.end(), record.begin(), record.end());
    records = records.subspan(length);
  }
  log.insert(log.end(), records.begin(), records.end());
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Check(bytes);
  Check(Sealed(bytes));
  return 0;
}

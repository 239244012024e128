#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

// The bytes of a state log; docs/formats.md describes them. Pure.
namespace paceline::store {

inline constexpr std::size_t kLogHeaderBytes = 12;    // magic, version
inline constexpr std::size_t kRecordHeaderBytes = 8;  // length, checksum

std::vector<std::byte> EncodeLogHeader();

// At most kMaxStateBytes.
std::vector<std::byte> EncodeRecord(std::string_view state);

struct DecodedLog {
  std::string newest;           // of the last whole record
  std::size_t records = 0;      // whole ones, at least 1
  std::size_t whole_bytes = 0;  // what lies behind is a record that a crash cut off
};

// The last record may be cut off or damaged, because it may have been in the making; the first
// one may not, because a log is renamed into place with it. `name` is for messages. kBadData: not
// a state log; kMismatch: of a newer version; kBadCheckpoint: damage that no crash explains.
Result<DecodedLog> DecodeLog(std::span<const std::byte> bytes, const std::string& name);

}  // namespace paceline::store

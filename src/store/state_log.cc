#include "store/state_log.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/state_store.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"
#include "wire/endian.h"

namespace paceline::store {

namespace {

constexpr std::string_view kMagic = "PACELOG\n";
constexpr std::uint32_t kVersion = 1;
static_assert(kMagic.size() + sizeof(kVersion) == kLogHeaderBytes);

// Looking for a record that follows damage costs a checksum at each place that could be one. States
// of ordinary content need about none; this bounds the others to a fraction of a second.
constexpr std::size_t kSearchBytes = std::size_t{64} << 20;

std::uint32_t RecordChecksum(std::span<const std::byte> length,
                             std::span<const std::byte> payload) {
  return wire::Crc32c(payload, wire::Crc32c(length));
}

// The payload that a record at the front of `bytes` claims; nothing when it does not fit.
std::optional<std::span<const std::byte>> ClaimedPayload(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  const std::uint32_t length = wire::LoadU32(bytes.data());
  if (length > kMaxStateBytes || length > bytes.size() - kRecordHeaderBytes) return std::nullopt;
  return bytes.subspan(kRecordHeaderBytes, length);
}

bool ChecksumHolds(std::span<const std::byte> record, std::span<const std::byte> payload) {
  return wire::LoadU32(record.data() + 4) == RecordChecksum(record.first(4), payload);
}

// Where behind the bad record that begins at `bad` a whole record lies; nothing when there is
// none. When the search costs too much, the place where it stopped: better refused than lost.
std::optional<std::size_t> FindRecordBehind(std::span<const std::byte> bytes, std::size_t bad) {
  std::size_t cost = 0;
  for (std::size_t at = bad + 1; at + kRecordHeaderBytes <= bytes.size(); ++at) {
    const auto payload = ClaimedPayload(bytes.subspan(at));
    if (!payload) continue;
    cost += payload->size();
    if (cost > kSearchBytes || ChecksumHolds(bytes.subspan(at), *payload)) return at;
  }
  return std::nullopt;
}

Status Damage(const std::string& name, std::size_t offset, const std::string& why) {
  return Status::Error(Code::kBadCheckpoint, fmt::format("{}:{}: damaged: {}", name, offset, why));
}

Status CheckHeader(std::span<const std::byte> bytes, const std::string& name) {
  const auto magic = wire::AsBytes(kMagic);
  if (bytes.size() < kLogHeaderBytes || !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    return Status::Error(Code::kBadData, fmt::format("{} is not a state log", name));
  }
  const std::uint32_t version = wire::LoadU32(bytes.data() + kMagic.size());
  if (version == kVersion) return {};
  return Status::Error(Code::kMismatch, fmt::format("{} has version {} of the format, this program "
                                                    "reads {}",
                                                    name, version, kVersion));
}

// Whether a crash while the record at `bad` was appended explains the bytes from there on.
Status CheckTail(std::span<const std::byte> bytes, std::size_t bad, const std::string& name) {
  if (bytes.size() - bad > kRecordHeaderBytes + kMaxStateBytes) {
    return Damage(name, bad, "a bad record, and more behind it than one record holds");
  }
  if (const auto next = FindRecordBehind(bytes, bad)) {
    return Damage(name, bad, fmt::format("a bad record, and another one behind it at {}", *next));
  }
  return {};
}

}  // namespace

std::vector<std::byte> EncodeLogHeader() {
  wire::ByteWriter writer;
  writer.Bytes(wire::AsBytes(kMagic));
  writer.Number(kVersion);
  return writer.Take();
}

std::vector<std::byte> EncodeRecord(std::string_view state) {
  PACELINE_CHECK(state.size() <= kMaxStateBytes, "callers check the size");
  std::vector<std::byte> record(kRecordHeaderBytes + state.size());
  const auto payload = wire::AsBytes(state);
  wire::StoreU32(record.data(), static_cast<std::uint32_t>(state.size()));
  wire::StoreU32(record.data() + 4, RecordChecksum(std::span(record).first(4), payload));
  std::copy(payload.begin(), payload.end(), record.begin() + kRecordHeaderBytes);
  return record;
}

Result<DecodedLog> DecodeLog(std::span<const std::byte> bytes, const std::string& name) {
  PACELINE_TRY(CheckHeader(bytes, name));
  DecodedLog log{.whole_bytes = kLogHeaderBytes};
  std::span<const std::byte> newest;
  while (log.whole_bytes < bytes.size()) {
    const auto record = bytes.subspan(log.whole_bytes);
    const auto payload = ClaimedPayload(record);
    if (!payload || !ChecksumHolds(record, *payload)) break;
    newest = *payload;
    log.records += 1;
    log.whole_bytes += kRecordHeaderBytes + payload->size();
  }
  if (log.records == 0) return Damage(name, kLogHeaderBytes, "the first record is not whole");
  if (log.whole_bytes < bytes.size()) PACELINE_TRY(CheckTail(bytes, log.whole_bytes, name));
  log.newest.assign(reinterpret_cast<const char*>(newest.data()), newest.size());
  return log;
}

}  // namespace paceline::store

#include "wire/frame.h"

#include <fmt/format.h>

#include "wire/crc32c.h"
#include "wire/endian.h"

namespace paceline::wire {

namespace {

// Where each field starts.
constexpr std::size_t kMagicAt = 0, kVersionAt = 4, kTypeAt = 5, kReservedAt = 6, kClusterAt = 8,
                      kGenerationAt = 16, kSequenceAt = 24, kTagAt = 32, kLengthAt = 40,
                      kPayloadCrcAt = 44, kReserved2At = 48, kHeaderCrcAt = 52;

bool Known(FrameType type) {
  switch (type) {
    case FrameType::kHello:
    case FrameType::kChallenge:
    case FrameType::kProof:
    case FrameType::kWelcome:
    case FrameType::kJoin:
    case FrameType::kView:
    case FrameType::kAbort:
    case FrameType::kLocal:
    case FrameType::kLeave:
    case FrameType::kControl:
    case FrameType::kData: return true;
  }
  return false;
}

Status Bad(const std::string& what) { return Status::Error(Code::kProtocol, "frame: " + what); }

}  // namespace

std::size_t MaxPayload(FrameType type) {
  constexpr std::size_t kHandshake = 512, kControl = std::size_t{1} << 20,
                        kBulk = std::size_t{16} << 20;
  if (type == FrameType::kData) return kBulk;
  const bool may_be_a_stranger = type <= FrameType::kWelcome || type == FrameType::kAbort;
  return may_be_a_stranger ? kHandshake : kControl;
}

const char* FrameTypeName(FrameType type) {
  switch (type) {
    case FrameType::kHello: return "hello";
    case FrameType::kChallenge: return "challenge";
    case FrameType::kProof: return "proof";
    case FrameType::kWelcome: return "welcome";
    case FrameType::kJoin: return "join";
    case FrameType::kView: return "view";
    case FrameType::kAbort: return "abort";
    case FrameType::kLocal: return "local";
    case FrameType::kLeave: return "leave";
    case FrameType::kControl: return "control";
    case FrameType::kData: return "data";
  }
  return "unknown";
}

std::array<std::byte, kHeaderBytes> EncodeHeader(const FrameHeader& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  StoreU32(&bytes[kMagicAt], kFrameMagic);
  bytes[kVersionAt] = std::byte{kProtocolVersion};
  bytes[kTypeAt] = static_cast<std::byte>(header.type);
  StoreU64(&bytes[kClusterAt], header.cluster);
  StoreU64(&bytes[kGenerationAt], header.generation.value());
  StoreU64(&bytes[kSequenceAt], header.sequence);
  StoreU64(&bytes[kTagAt], header.tag);
  StoreU32(&bytes[kLengthAt], header.length);
  StoreU32(&bytes[kPayloadCrcAt], header.payload_crc);
  StoreU32(&bytes[kHeaderCrcAt], Crc32c(std::span(bytes).first(kHeaderCrcAt)));
  return bytes;
}

Result<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes) {
  if (LoadU32(&bytes[kMagicAt]) != kFrameMagic) return Bad("not Paceline's protocol");
  const auto version = static_cast<std::uint8_t>(bytes[kVersionAt]);
  if (version != kProtocolVersion) {
    return Status::Error(Code::kMismatch, fmt::format("protocol version: ours {}, theirs {}",
                                                      kProtocolVersion, version));
  }
  if (LoadU32(&bytes[kHeaderCrcAt]) != Crc32c(bytes.first<kHeaderCrcAt>())) {
    return Bad("the header's checksum is wrong");
  }
  if (LoadU16(&bytes[kReservedAt]) != 0 || LoadU32(&bytes[kReserved2At]) != 0) {
    return Bad("reserved bytes are not zero");
  }
  const auto type = static_cast<FrameType>(bytes[kTypeAt]);
  if (!Known(type)) {
    return Bad(fmt::format("unknown type {}", static_cast<unsigned>(bytes[kTypeAt])));
  }
  const FrameHeader header{.type = type,
                           .cluster = LoadU64(&bytes[kClusterAt]),
                           .generation = Generation(LoadU64(&bytes[kGenerationAt])),
                           .sequence = LoadU64(&bytes[kSequenceAt]),
                           .tag = LoadU64(&bytes[kTagAt]),
                           .length = LoadU32(&bytes[kLengthAt]),
                           .payload_crc = LoadU32(&bytes[kPayloadCrcAt])};
  if (header.length > MaxPayload(type)) {
    return Bad(fmt::format("a {} frame of {} bytes; the limit is {}", FrameTypeName(type),
                           header.length, MaxPayload(type)));
  }
  return header;
}

}  // namespace paceline::wire

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"

namespace paceline::wire {

// Everything between processes travels in frames: a header of 56 bytes, then the payload.
// docs/wire.md describes every byte.
inline constexpr std::uint32_t kFrameMagic = 0x314E4C50;  // "PLN1" in memory
inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kHeaderBytes = 56;

enum class FrameType : std::uint8_t {
  kHello = 1,  // handshake, in this order
  kChallenge = 2,
  kProof = 3,
  kWelcome = 4,
  kJoin = 16,     // rendezvous: a rank says where it can be reached
  kView = 17,     // rendezvous: who is in the group
  kAbort = 18,    // a rank gives up, and whom it blames
  kLocal = 19,    // ranks on one host agree on shared memory
  kLeave = 20,    // good-bye: what follows is the end of the connection
  kControl = 21,  // between a worker and the coordinator: wire/control.h
  kData = 32,     // payload of a collective operation
};

// Largest payload of a type. Checked before any memory is taken.
std::size_t MaxPayload(FrameType type);
const char* FrameTypeName(FrameType type);

struct FrameHeader {
  FrameType type = FrameType::kData;
  std::uint64_t cluster = 0;   // of the job; a frame of another job is refused
  Generation generation;       // of the view; an older one is refused
  std::uint64_t sequence = 0;  // of this direction of this connection, from 0
  std::uint64_t tag = 0;       // what the payload belongs to; the layer above defines it
  std::uint32_t length = 0;    // of the payload
  std::uint32_t payload_crc = 0;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

std::array<std::byte, kHeaderBytes> EncodeHeader(const FrameHeader& header);

// kProtocol for anything that EncodeHeader cannot have written; kMismatch for another version.
Result<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace paceline::wire

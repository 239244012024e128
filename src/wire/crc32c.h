#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::wire {

// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 appendix B.4): the checksum of
// frames and checkpoints. `previous` is the value of the bytes before `data`, so that
// Crc32c(b, Crc32c(a)) is the checksum of a followed by b. Uses the CPU's instruction where there
// is one; pure and thread-safe. Finds accidents, not attackers.
std::uint32_t Crc32c(std::span<const std::byte> data, std::uint32_t previous = 0);

// The same value from tables alone: the fallback and the reference that tests compare with.
std::uint32_t Crc32cPortable(std::span<const std::byte> data, std::uint32_t previous = 0);

// "sse4.2" or "table": what Crc32c uses on this machine.
const char* Crc32cImplementation();

}  // namespace paceline::wire

#include "wire/crc32c.h"

#include <array>

#include "wire/endian.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace paceline::wire {

namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed

using Table = std::array<std::uint32_t, 256>;

// "Slicing by 8" (Kounavis and Berry, "A systematic approach to building high performance
// software-based CRC generators", ISCC 2005): table k advances a byte over k more zero bytes.
constexpr std::array<Table, 8> MakeSlices() {
  std::array<Table, 8> slices{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    slices[0][n] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t n = 0; n < 256; ++n) {
      const std::uint32_t before = slices[k - 1][n];
      slices[k][n] = (before >> 8) ^ slices[0][before & 0xFF];
    }
  }
  return slices;
}

constexpr std::array<Table, 8> kSlices = MakeSlices();

std::uint32_t UpdateByte(std::uint32_t crc, std::byte next) {
  return (crc >> 8) ^ kSlices[0][(crc ^ std::to_integer<std::uint32_t>(next)) & 0xFF];
}

#if defined(__x86_64__)

// The instruction has a latency of three cycles and a throughput of one, so three independent
// streams run at full speed. Their values are joined by advancing the earlier ones over the length
// of the later ones, which is a linear map of 32 bits: four tables. The scheme is Mark Adler's
// crc32c.c (https://stackoverflow.com/a/17646775); 4096 bytes a stream stays inside L1.
constexpr std::size_t kStreamBytes = 4096;
static_assert(kStreamBytes % 8 == 0);

// a * b modulo the polynomial; bit 31 is x^0. As in zlib's crc32_combine.
constexpr std::uint32_t MultiplyModulo(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t mask = 0x80000000; mask != 0; mask >>= 1) {
    if ((a & mask) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

constexpr std::array<Table, 4> MakeAdvance(std::size_t zero_bytes) {
  std::uint32_t power = 0x80000000;   // x^0
  std::uint32_t square = 0x00800000;  // x^8: one zero byte
  for (std::size_t n = zero_bytes; n != 0; n >>= 1) {
    if ((n & 1) != 0) power = MultiplyModulo(power, square);
    square = MultiplyModulo(square, square);
  }
  std::array<Table, 4> tables{};
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::uint32_t n = 0; n < 256; ++n) tables[k][n] = MultiplyModulo(power, n << (8 * k));
  }
  return tables;
}

constexpr std::array<Table, 4> kAdvance = MakeAdvance(kStreamBytes);

std::uint64_t Advance(std::uint64_t crc) {
  return kAdvance[0][crc & 0xFF] ^ kAdvance[1][(crc >> 8) & 0xFF] ^
         kAdvance[2][(crc >> 16) & 0xFF] ^ kAdvance[3][(crc >> 24) & 0xFF];
}

__attribute__((target("sse4.2"))) std::uint32_t Crc32cHardware(std::span<const std::byte> data,
                                                               std::uint32_t previous) {
  std::uint64_t crc = ~previous;
  const std::byte* at = data.data();
  std::size_t left = data.size();
  for (; left >= 3 * kStreamBytes; at += 3 * kStreamBytes, left -= 3 * kStreamBytes) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kStreamBytes; i += 8) {
      crc = _mm_crc32_u64(crc, LoadU64(at + i));
      second = _mm_crc32_u64(second, LoadU64(at + kStreamBytes + i));
      third = _mm_crc32_u64(third, LoadU64(at + 2 * kStreamBytes + i));
    }
    crc = Advance(Advance(crc) ^ second) ^ third;
  }
  for (; left >= 8; at += 8, left -= 8) crc = _mm_crc32_u64(crc, LoadU64(at));
  auto tail = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) tail = _mm_crc32_u8(tail, std::to_integer<unsigned char>(*at));
  return ~tail;
}

bool HasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

#else

std::uint32_t Crc32cHardware(std::span<const std::byte> data, std::uint32_t previous) {
  return Crc32cPortable(data, previous);
}

bool HasInstruction() { return false; }

#endif

}  // namespace

std::uint32_t Crc32cPortable(std::span<const std::byte> data, std::uint32_t previous) {
  std::uint32_t crc = ~previous;
  const std::byte* at = data.data();
  std::size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    const std::uint64_t word = LoadU64(at) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kSlices[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; left > 0; ++at, --left) crc = UpdateByte(crc, *at);
  return ~crc;
}

std::uint32_t Crc32c(std::span<const std::byte> data, std::uint32_t previous) {
  return HasInstruction() ? Crc32cHardware(data, previous) : Crc32cPortable(data, previous);
}

const char* Crc32cImplementation() { return HasInstruction() ? "sse4.2" : "table"; }

}  // namespace paceline::wire

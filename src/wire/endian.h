#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Everything this project writes to a socket or a file is little-endian, whatever the CPU is.
namespace paceline::wire {

// `from` and `to` need no alignment. The copy is one move; g++ does not see that in the loop.
template <std::unsigned_integral T>
T LoadLittle(const std::byte* from) {
  T value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, from, sizeof(T));
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
    }
  }
  return value;
}

template <std::unsigned_integral T>
void StoreLittle(std::byte* to, T value) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(to, &value, sizeof(T));
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xFF);
    }
  }
}

inline std::uint16_t LoadU16(const std::byte* from) { return LoadLittle<std::uint16_t>(from); }
inline std::uint32_t LoadU32(const std::byte* from) { return LoadLittle<std::uint32_t>(from); }
inline std::uint64_t LoadU64(const std::byte* from) { return LoadLittle<std::uint64_t>(from); }
inline float LoadF32(const std::byte* from) { return std::bit_cast<float>(LoadU32(from)); }

inline void StoreU16(std::byte* to, std::uint16_t value) { StoreLittle(to, value); }
inline void StoreU32(std::byte* to, std::uint32_t value) { StoreLittle(to, value); }
inline void StoreU64(std::byte* to, std::uint64_t value) { StoreLittle(to, value); }
inline void StoreF32(std::byte* to, float value) {
  StoreLittle(to, std::bit_cast<std::uint32_t>(value));
}

}  // namespace paceline::wire

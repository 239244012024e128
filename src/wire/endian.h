#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

// Everything this project writes to a socket or a file is little-endian, whatever the CPU is.
namespace paceline::wire {

// `from` and `to` need no alignment; compilers turn both loops into one move on x86 and Arm.
template <std::unsigned_integral T>
constexpr T LoadLittle(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
  }
  return value;
}

template <std::unsigned_integral T>
constexpr void StoreLittle(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xFF);
  }
}

constexpr std::uint16_t LoadU16(const std::byte* from) { return LoadLittle<std::uint16_t>(from); }
constexpr std::uint32_t LoadU32(const std::byte* from) { return LoadLittle<std::uint32_t>(from); }
constexpr std::uint64_t LoadU64(const std::byte* from) { return LoadLittle<std::uint64_t>(from); }
constexpr float LoadF32(const std::byte* from) { return std::bit_cast<float>(LoadU32(from)); }

constexpr void StoreU16(std::byte* to, std::uint16_t value) { StoreLittle(to, value); }
constexpr void StoreU32(std::byte* to, std::uint32_t value) { StoreLittle(to, value); }
constexpr void StoreU64(std::byte* to, std::uint64_t value) { StoreLittle(to, value); }
constexpr void StoreF32(std::byte* to, float value) {
  StoreLittle(to, std::bit_cast<std::uint32_t>(value));
}

}  // namespace paceline::wire

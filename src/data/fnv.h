#pragma once

#include <cstdint>
#include <string_view>

namespace paceline::data {

// FNV-1a, 64 bits. Tells different texts apart; not meant against an attacker.
inline constexpr std::uint64_t kFnvStart = 0xCBF29CE484222325ULL;

constexpr std::uint64_t Fnv(std::string_view bytes, std::uint64_t hash = kFnvStart) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace paceline::data

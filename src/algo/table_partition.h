#pragma once

#include <cstdint>
#include <string_view>

namespace paceline::algo {

// Every bit of the result depends on every bit of `value`; one to one. Ids of real tables are
// consecutive, or carry a slot number in their high bits: neither may show in what is derived.
constexpr std::uint64_t Mix(std::uint64_t value) {
  // The finaliser of SplitMix64 (Stafford's variant 13 of MurmurHash3's).
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

// Which of `servers` (>= 1) keeps the row of this id, in every table. When a server is added, only
// the rows that it gets change their place: 1 / (servers + 1) of all.
std::uint32_t ServerOf(std::int64_t id, std::uint32_t servers);

// A table's part in the keys of its random numbers, so that equal ids of two tables differ.
std::uint64_t TableKey(std::string_view name);

}  // namespace paceline::algo

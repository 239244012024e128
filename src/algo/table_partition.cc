#include "algo/table_partition.h"

#include "base/check.h"

namespace paceline::algo {

std::uint32_t ServerOf(std::int64_t id, std::uint32_t servers) {
  PACELINE_CHECK(servers >= 1, "somebody keeps the row");
  // Lamping and Veach, "A fast, minimal memory, consistent hash algorithm", 2014: `next` is the
  // number of servers at which this id moves again. About ln(servers) rounds.
  std::uint64_t key = Mix(static_cast<std::uint64_t>(id) + 0x9E3779B97F4A7C15);
  std::uint64_t server = 0, next = 0;
  while (next < servers) {
    server = next;
    key = key * 2862933555777941757U + 1;
    next = static_cast<std::uint64_t>(static_cast<double>(server + 1) *
                                      (0x1p31 / static_cast<double>((key >> 33) + 1)));
  }
  return static_cast<std::uint32_t>(server);
}

std::uint64_t TableKey(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return Mix(hash);
}

}  // namespace paceline::algo

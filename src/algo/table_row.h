#pragma once

#include <cstdint>
#include <span>

namespace paceline::algo {

// Where the numbers of one sparse table come from.
struct TableSource {
  std::uint64_t seed = 0;  // of the run
  std::uint64_t key = 0;   // TableKey(name)
};

// The row of `id` before its first update: uniform in [-init_range, init_range). A function of its
// arguments alone, so rows may be made in any order, by any server, and again after they were lost.
void InitialRow(const TableSource& source, std::int64_t id, float init_range,
                std::span<float> values);

// Whether a table that stores each id with this probability stores this one: for ever yes or no.
bool AdmittedByChance(const TableSource& source, std::int64_t id, double probability);

}  // namespace paceline::algo

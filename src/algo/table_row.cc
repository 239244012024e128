#include "algo/table_row.h"

#include <algorithm>

#include "base/rng.h"

namespace paceline::algo {

void InitialRow(const TableSource& source, std::int64_t id, float init_range,
                std::span<float> values) {
  if (init_range == 0.0F) {
    std::ranges::fill(values, 0.0F);
    return;
  }
  CounterRng rng(source.seed, Purpose::kTableRow, source.key, static_cast<std::uint64_t>(id));
  // 2u - 1 is exact and below 1, and so is its product with the range below the range.
  for (float& value : values) value = (2.0F * rng.Uniform() - 1.0F) * init_range;
}

bool AdmittedByChance(const TableSource& source, std::int64_t id, double probability) {
  const std::uint64_t bits =
      DeriveKey(source.seed, Purpose::kTableAdmission, source.key, static_cast<std::uint64_t>(id));
  return static_cast<double>(bits >> 11) * 0x1p-53 < probability;
}

}  // namespace paceline::algo

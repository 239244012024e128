#include "sparse/alias_table.h"

#include <numeric>

#include "base/check.h"

namespace paceline::sparse {

AliasTable::AliasTable(std::span<const double> weights) : slots_(weights.size()) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  PACELINE_CHECK(total > 0, "a positive weight");
  std::vector<double> share;  // 1 is exactly one slot
  std::vector<std::uint32_t> small, large;
  for (const double weight : weights) {
    const auto index = static_cast<std::uint32_t>(share.size());
    share.push_back(weight / total * static_cast<double>(weights.size()));
    (share.back() < 1 ? small : large).push_back(index);
    slots_[index] = {0xFFFFFFFF, index};
  }
  // A slot that is not full is filled up by one that has too much.
  while (!small.empty() && !large.empty()) {
    const std::uint32_t from = large.back(), to = small.back();
    small.pop_back();
    slots_[to] = {static_cast<std::uint32_t>(share[to] * 0x1p32), from};
    share[from] -= 1 - share[to];
    if (share[from] < 1) {
      large.pop_back();
      small.push_back(from);
    }
  }
}

}  // namespace paceline::sparse

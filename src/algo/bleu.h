#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::algo {

// BLEU (Papineni et al. 2002) of a corpus with one reference each, as multi-bleu and sacreBLEU
// without smoothing count it: counts of sentences are added, the value is computed once. Counts are
// doubles so that they can be summed with other figures; they stay exact up to 2^53. Value.
struct BleuCounts {
  static constexpr std::size_t kOrders = 4;

  std::array<double, kOrders> matches{};  // n-grams also in the reference, each as often as there
  std::array<double, kOrders> totals{};   // n-grams of the translations
  double length = 0;                      // of the translations
  double reference_length = 0;

  void Add(std::span<const std::int64_t> translation, std::span<const std::int64_t> reference);

  // 0 to 1: geometric mean of the precisions times the brevity penalty; 0 when any order has no
  // match.
  double Value() const;
};

}  // namespace paceline::algo

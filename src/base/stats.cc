#include "base/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline {

double Quantile(std::span<const double> values, double q) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

Summary Summarize(std::span<const double> values) {
  if (values.empty()) return {};
  Summary summary;
  summary.count = values.size();
  summary.median = Quantile(values, 0.5);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - summary.median));
  summary.mad = Quantile(deviations, 0.5);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  summary.min = *low;
  summary.max = *high;
  summary.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return summary;
}

std::size_t CountOutliers(std::span<const double> values) {
  constexpr double kLimit = 14.826;
  const Summary summary = Summarize(values);
  if (summary.mad == 0) return 0;
  return static_cast<std::size_t>(std::count_if(values.begin(), values.end(), [&](double value) {
    return std::abs(value - summary.median) / summary.mad > kLimit;
  }));
}

Summary PairedRatio(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (b[i] != 0) ratios.push_back(a[i] / b[i]);
  }
  return Summarize(ratios);
}

}  // namespace paceline

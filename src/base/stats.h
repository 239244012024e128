#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace paceline {

// Median and spread that one outlier cannot move. All functions accept unsorted input; an empty
// one gives zeros.
struct Summary {
  std::size_t count = 0;
  double median = 0;
  double mad = 0;  // median absolute deviation from the median
  double min = 0;
  double max = 0;
  double mean = 0;

  // Half-width of the spread as a share of the median; 0 when the median is 0.
  double RelativeSpread() const { return median == 0 ? 0 : mad / median; }
};

Summary Summarize(std::span<const double> values);

// q in [0, 1], linear between neighbours.
double Quantile(std::span<const double> values, double q);

// Values whose modified z-score |x - median| / MAD exceeds 14.826 (ten standard deviations of a
// normal distribution; hyperfine's rule).
std::size_t CountOutliers(std::span<const double> values);

// Median of a[i] / b[i] for runs that were interleaved pairwise; extra elements are ignored.
Summary PairedRatio(std::span<const double> a, std::span<const double> b);

}  // namespace paceline

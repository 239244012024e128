#include "kernel/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernel/exponential.h"

namespace paceline::kernel {

namespace {

// Interleaved, so that additions fill vector registers; each part adds few enough terms for a
// float, and the parts are added in double, in order.
constexpr std::size_t kParts = 32;
constexpr std::size_t kFlushAfter = 4096;

struct Scan {
  float greatest;
  double mean;
};

Scan ScanRow(std::span<const float> row) {
  const float* x = row.data();
  float greatest[kParts], sums[kParts] = {};
  std::fill_n(greatest, kParts, x[0]);
  double total = 0;
  std::size_t i = 0;
  while (i + kParts <= row.size()) {
    const std::size_t end = std::min(row.size(), i + kFlushAfter);
    for (; i + kParts <= end; i += kParts) {
      for (std::size_t k = 0; k < kParts; ++k) {
        greatest[k] = greatest[k] < x[i + k] ? x[i + k] : greatest[k];
        sums[k] += x[i + k];
      }
    }
    for (float& sum : sums) {
      total += double{sum};
      sum = 0;
    }
  }
  for (; i < row.size(); ++i) {
    greatest[0] = std::max(greatest[0], x[i]);
    total += double{x[i]};
  }
  return {*std::max_element(greatest, greatest + kParts), total / static_cast<double>(row.size())};
}

// Adds up e^(x - greatest); `keep(i, value)` may store it.
template <typename Keep>
double SumOfExponentials(std::span<const float> row, float greatest, const Keep& keep) {
  const float* x = row.data();
  double total = 0;
  std::size_t i = 0;
  while (i + kParts <= row.size()) {
    float sums[kParts] = {};
    const std::size_t end = std::min(row.size(), i + kFlushAfter);
    for (; i + kParts <= end; i += kParts) {
      for (std::size_t k = 0; k < kParts; ++k) {
        const float value = Exponential(x[i + k] - greatest);
        keep(i + k, value);
        sums[k] += value;
      }
    }
    for (const float sum : sums) total += double{sum};
  }
  for (; i < row.size(); ++i) {
    const float value = Exponential(x[i] - greatest);
    keep(i, value);
    total += double{value};
  }
  return total;
}

// From the right class's logit and the mean of all.
RowLoss LossOf(float right, double mean, double log_sum, float smoothing) {
  const double negative_log = log_sum - double{right}, spread = double{smoothing};
  return {static_cast<float>(negative_log),
          static_cast<float>((1 - spread) * negative_log + spread * (log_sum - mean))};
}

// Of equally likely classes the first counts as predicted.
bool IsPredicted(std::span<const float> row, std::size_t right, float greatest) {
  if (!(row[right] == greatest)) return false;
  return std::find(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(right), greatest) ==
         row.begin() + static_cast<std::ptrdiff_t>(right);
}

}  // namespace

RowLoss CrossEntropy(std::span<const float> logits, const RowTarget& target) {
  PACELINE_CHECK(target.right < logits.size(), "the right class is one of the classes");
  const Scan scan = ScanRow(logits);
  const double sum = SumOfExponentials(logits, scan.greatest, [](std::size_t, float) {});
  RowLoss loss = LossOf(logits[target.right], scan.mean, double{scan.greatest} + std::log(sum),
                        target.smoothing);
  loss.correct = IsPredicted(logits, target.right, scan.greatest);
  return loss;
}

RowLoss CrossEntropyGradient(std::span<float> logits, const RowTarget& target) {
  PACELINE_CHECK(target.right < logits.size(), "the right class is one of the classes");
  const Scan scan = ScanRow(logits);
  const bool correct = IsPredicted(logits, target.right, scan.greatest);
  const float right = logits[target.right];
  float* x = logits.data();
  const double sum =
      SumOfExponentials(logits, scan.greatest, [x](std::size_t i, float value) { x[i] = value; });
  const double smoothing = double{target.smoothing}, weight = double{target.weight};
  const auto scale = static_cast<float>(weight / sum);
  const auto spread = static_cast<float>(weight * smoothing / static_cast<double>(logits.size()));
  for (std::size_t i = 0; i < logits.size(); ++i) x[i] = x[i] * scale - spread;
  x[target.right] -= static_cast<float>(weight * (1 - smoothing));
  RowLoss loss = LossOf(right, scan.mean, double{scan.greatest} + std::log(sum), target.smoothing);
  loss.correct = correct;
  return loss;
}

}  // namespace paceline::kernel

#include "algo/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace paceline::algo {

namespace {

// Pairs (positive, negative) ranked right, counting ties half, fed one group of equal scores at a
// time in rising order. Sums in double: exact up to 2^53 pairs, a relative 2^-53 each beyond.
struct PairCount {
  double right = 0;
  double positives = 0;
  double negatives = 0;  // seen so far, all of them below the next group

  void AddGroup(double group_positives, double group_negatives) {
    right += group_positives * (negatives + 0.5 * group_negatives);
    positives += group_positives;
    negatives += group_negatives;
  }
  std::optional<double> Auc() const {
    if (positives == 0 || negatives == 0) return std::nullopt;
    return right / positives / negatives;
  }
};

}  // namespace

std::optional<double> ExactAuc(std::span<const float> scores,
                               std::span<const std::uint8_t> labels) {
  PACELINE_CHECK(scores.size() == labels.size(), "one label for each score");
  // Sorting needs a strict weak order, which NaN breaks.
  if (std::ranges::any_of(scores, [](float s) { return std::isnan(s); })) return std::nullopt;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });
  PairCount pairs;
  for (std::size_t i = 0; i < order.size();) {
    const float score = scores[order[i]];
    double positives = 0, negatives = 0;
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      (labels[order[i]] != 0 ? positives : negatives) += 1;
    }
    pairs.AddGroup(positives, negatives);
  }
  return pairs.Auc();
}

void AucAccumulator::Add(float score, bool positive) {
  if (std::isnan(score)) {
    ++not_a_number_;
    return;
  }
  const auto bucket = static_cast<std::size_t>(std::clamp(score, 0.0F, 1.0F) * (kBuckets - 1));
  ++(positive ? positives_ : negatives_)[bucket];
}

void AucAccumulator::Merge(const AucAccumulator& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    positives_[i] += other.positives_[i];
    negatives_[i] += other.negatives_[i];
  }
  not_a_number_ += other.not_a_number_;
}

std::optional<double> AucAccumulator::Value() const {
  if (not_a_number_ > 0) return std::nullopt;
  PairCount pairs;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    pairs.AddGroup(static_cast<double>(positives_[i]), static_cast<double>(negatives_[i]));
  }
  return pairs.Auc();
}

void AccuracyCounter::Add(std::span<const std::int64_t> predicted,
                          std::span<const std::int64_t> labels) {
  PACELINE_CHECK(predicted.size() == labels.size(), "one label for each prediction");
  for (std::size_t i = 0; i < labels.size(); ++i) correct += predicted[i] == labels[i] ? 1 : 0;
  total += labels.size();
}

void AccuracyCounter::Merge(const AccuracyCounter& other) {
  correct += other.correct;
  total += other.total;
}

double AccuracyCounter::Value() const {
  return total == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(total);
}

}  // namespace paceline::algo

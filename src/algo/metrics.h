#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace paceline::algo {

// Area under the ROC curve by ranks (Mann-Whitney U; ties count half). labels: 0 or not 0.
// nullopt when one of the classes is absent or a score is NaN: then there is no AUC.
// O(n log n) time, O(n) memory.
std::optional<double> ExactAuc(std::span<const float> scores, std::span<const std::uint8_t> labels);

// AUC of any number of predictions in fixed memory: a histogram of positives and negatives over
// 2^12 score buckets, as Paddle's auc operator (num_thresholds = 2^12 - 1) keeps. Scores in one
// bucket count as ties. Merging is exact, so workers can count apart. Thread-compatible.
class AucAccumulator {
 public:
  static constexpr std::size_t kBuckets = std::size_t{1} << 12;

  // score is a probability; clamped to [0, 1]. NaN is only counted in not_a_number().
  void Add(float score, bool positive);
  void Merge(const AucAccumulator& other);

  // nullopt when one of the classes is absent or a score was NaN.
  std::optional<double> Value() const;
  std::uint64_t not_a_number() const { return not_a_number_; }

 private:
  std::array<std::uint64_t, kBuckets> positives_{};
  std::array<std::uint64_t, kBuckets> negatives_{};
  std::uint64_t not_a_number_ = 0;
};

// Share of right answers; mergeable. Thread-compatible value.
struct AccuracyCounter {
  std::uint64_t correct = 0;
  std::uint64_t total = 0;

  void Add(std::span<const std::int64_t> predicted, std::span<const std::int64_t> labels);
  void Merge(const AccuracyCounter& other);
  double Value() const;  // 0 when nothing was counted
};

}  // namespace paceline::algo

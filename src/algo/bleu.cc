#include "algo/bleu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace paceline::algo {

namespace {

using Words = std::span<const std::int64_t>;

std::map<std::vector<std::int64_t>, std::int64_t> CountGrams(Words words, std::size_t order) {
  std::map<std::vector<std::int64_t>, std::int64_t> counts;
  for (std::size_t i = 0; i + order <= words.size(); ++i) {
    const Words gram = words.subspan(i, order);
    ++counts[{gram.begin(), gram.end()}];
  }
  return counts;
}

}  // namespace

void BleuCounts::Add(Words translation, Words reference) {
  length += static_cast<double>(translation.size());
  reference_length += static_cast<double>(reference.size());
  for (std::size_t n = 0; n < kOrders; ++n) {
    const auto theirs = CountGrams(reference, n + 1);
    for (const auto& [gram, count] : CountGrams(translation, n + 1)) {
      const auto found = theirs.find(gram);
      totals[n] += static_cast<double>(count);
      if (found != theirs.end()) {
        matches[n] += static_cast<double>(std::min(count, found->second));
      }
    }
  }
}

double BleuCounts::Value() const {
  double logs = 0;
  for (std::size_t n = 0; n < kOrders; ++n) {
    if (matches[n] == 0) return 0;
    logs += std::log(matches[n] / totals[n]);
  }
  const double brevity = length < reference_length ? std::exp(1 - reference_length / length) : 1;
  return brevity * std::exp(logs / static_cast<double>(kOrders));
}

}  // namespace paceline::algo

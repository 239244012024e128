#include "data/token_packs.h"

#include <algorithm>
#include <tuple>

#include "algo/sample_order.h"

namespace paceline::data {

TokenPacks::TokenPacks(const TranslationSource& source, const PackOptions& options) {
  if (source.size() == 0) return;
  const algo::SampleOrder order(options.seed, 0, source.size());
  std::vector<std::uint64_t> pool;
  struct Keyed {
    PairLengths lengths;
    std::uint64_t index;
  };
  std::vector<Keyed> keyed;
  for (std::uint64_t position = 0; position < source.size(); ++position) {
    const std::uint64_t index = order.At(position);
    keyed.push_back({source.Lengths(index), index});
    if (keyed.size() < options.pool && position + 1 < source.size()) continue;
    std::ranges::sort(keyed, {}, [](const Keyed& sentence) {
      return std::tuple(sentence.lengths.target, sentence.lengths.source, sentence.index);
    });
    pool.clear();
    for (const Keyed& sentence : keyed) pool.push_back(sentence.index);
    keyed.clear();
    Cut(pool, source, options.tokens);
  }
}

void TokenPacks::Cut(std::span<const std::uint64_t> pool, const TranslationSource& source,
                     std::size_t tokens) {
  std::size_t widest = 0, count = 0;
  for (const std::uint64_t index : pool) {
    const PairLengths lengths = source.Lengths(index);
    // The target has its end as well.
    const std::size_t width = std::max<std::size_t>(lengths.source, lengths.target + 1);
    if (count > 0 && (count + 1) * std::max(widest, width) > tokens) {
      ends_.push_back(sentences_.size());
      widest = count = 0;
    }
    sentences_.push_back(index);
    widest = std::max(widest, width);
    ++count;
  }
  ends_.push_back(sentences_.size());
}

std::span<const std::uint64_t> TokenPacks::pack(std::size_t number) const {
  const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::span(sentences_).subspan(begin, ends_[number] - begin);
}

}  // namespace paceline::data

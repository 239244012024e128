#include "data/translation_batches.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "data/byte_pairs.h"

namespace paceline::data {

namespace {

struct WeightedPair {
  SentencePair ids;
  float weight = 0;  // of each of its target pieces
};

struct Widths {
  std::size_t source = 0, target = 0;
};

// Into row `row` of each array, which are zero.
void FillRow(const WeightedPair& pair, std::size_t row, const Widths& widths,
             const std::vector<BatchTensor>& arrays) {
  const auto& [source, target] = pair.ids;
  std::ranges::copy(source, arrays[0].Integers().subspan(row * widths.source).begin());
  const auto input = arrays[1].Integers().subspan(row * widths.target, widths.target);
  const auto output = arrays[2].Integers().subspan(row * widths.target, widths.target);
  input[0] = BytePairs::kStart;
  std::ranges::copy(target, input.begin() + 1);
  std::ranges::copy(target, output.begin());
  output[target.size()] = BytePairs::kEnd;
  const auto weights = arrays[3].Floats().subspan(row * widths.target, target.size() + 1);
  std::ranges::fill(weights, pair.weight);
}

}  // namespace

Status TranslationBatches::Fill(const FillRequest& request, BatchBuffer& buffer) const {
  std::vector<WeightedPair> pairs;
  Widths widths;
  for (const SampleRef& sample : request.samples) {
    if (request.stop.stop_requested()) {
      return Status::Error(Code::kAborted, "the loader is closing");
    }
    const std::uint64_t index = sample.index;
    const std::span<const std::uint64_t> members =
        packs_ ? packs_->pack(index) : std::span(&index, 1);
    const std::size_t first = pairs.size();
    std::size_t pieces = 0;
    for (const std::uint64_t member : members) {
      SentencePair& pair = pairs.emplace_back().ids;
      PACELINE_TRY(source_->Read(member, pair));
      widths.source = std::max(widths.source, pair.source.size());
      widths.target = std::max(widths.target, pair.target.size() + 1);
      pieces += pair.target.size() + 1;
    }
    for (WeightedPair& pair : std::span(pairs).subspan(first)) {
      pair.weight = 1.0F / static_cast<float>(pieces);
    }
  }
  const auto rows = static_cast<std::int64_t>(pairs.size());
  const auto source_width = static_cast<std::int64_t>(widths.source);
  const auto target_width = static_cast<std::int64_t>(widths.target);
  PACELINE_ASSIGN(const auto source, buffer.Integers(0, {rows, source_width}));
  PACELINE_ASSIGN(const auto input, buffer.Integers(1, {rows, target_width}));
  PACELINE_ASSIGN(const auto output, buffer.Integers(2, {rows, target_width}));
  PACELINE_ASSIGN(const auto weights, buffer.Floats(3, {rows, target_width}));
  for (const auto& ids : {source, input, output}) std::ranges::fill(ids, BytePairs::kPad);
  std::ranges::fill(weights, 0.0F);
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    FillRow(pairs[row], row, widths, buffer.batch.tensors);
  }
  return {};
}

std::string TranslationBatches::Fingerprint() const {
  if (!packs_) return source_->Fingerprint();
  return fmt::format("{} packs:{} of {} seed:{}", source_->Fingerprint(), packs_->size(),
                     options_.tokens, options_.seed);
}

}  // namespace paceline::data

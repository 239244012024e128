#include "train/random_text.h"

#include <algorithm>
#include <span>

#include "base/rng.h"
#include "train/transformer.h"

namespace paceline::train {

namespace {

constexpr std::int64_t kFirstWord = 5;  // ids below have a special sense
constexpr std::int64_t kMaskEvery = 7;  // 15 %: 19 of 128

void FillWords(std::span<std::int64_t> ids, std::int64_t vocabulary,
               const data::FillRequest& request, std::uint64_t array) {
  if (ids.empty()) return;
  CounterRng rng(request.seed, Purpose::kSynthetic, request.samples[0].index, array);
  const auto words = static_cast<std::uint32_t>(vocabulary - kFirstWord);
  for (std::int64_t& id : ids) id = kFirstWord + std::int64_t{rng.Below(words)};
}

}  // namespace

Status RandomText::Fill(const data::FillRequest& request, data::BatchBuffer& buffer) const {
  return family_ == model::Family::kTranslation ? FillTranslation(request, buffer)
                                                : FillMasked(request, buffer);
}

Status RandomText::FillTranslation(const data::FillRequest& request,
                                   data::BatchBuffer& buffer) const {
  const auto rows = static_cast<std::int64_t>(request.samples.size());
  PACELINE_ASSIGN(const auto source, buffer.Integers(0, {rows, length_}));
  PACELINE_ASSIGN(const auto inputs, buffer.Integers(1, {rows, length_}));
  PACELINE_ASSIGN(const auto outputs, buffer.Integers(2, {rows, length_}));
  PACELINE_ASSIGN(const auto weights, buffer.Floats(3, {rows, length_}));
  FillWords(source, vocabulary_, request, 0);
  FillWords(outputs, vocabulary_, request, 1);
  const auto length = static_cast<std::size_t>(length_);
  for (std::size_t first = 0; first < outputs.size(); first += length) {
    outputs[first + length - 1] = kSentenceEnd;
    inputs[first] = kSentenceStart;
    std::ranges::copy(outputs.subspan(first, length - 1),
                      inputs.begin() + static_cast<std::ptrdiff_t>(first) + 1);
  }
  std::ranges::fill(weights, 1.0F / static_cast<float>(length_));
  return {};
}

Status RandomText::FillMasked(const data::FillRequest& request, data::BatchBuffer& buffer) const {
  const auto rows = static_cast<std::int64_t>(request.samples.size());
  const std::int64_t masks = (length_ + kMaskEvery - 1) / kMaskEvery;
  PACELINE_ASSIGN(const auto tokens, buffer.Integers(0, {rows, length_}));
  PACELINE_ASSIGN(const auto segments, buffer.Integers(1, {rows, length_}));
  PACELINE_ASSIGN(const auto places, buffer.Integers(2, {rows * masks}));
  PACELINE_ASSIGN(const auto right, buffer.Integers(3, {rows * masks}));
  PACELINE_ASSIGN(const auto weights, buffer.Floats(4, {rows * masks}));
  PACELINE_ASSIGN(const auto following, buffer.Integers(5, {rows}));
  FillWords(tokens, vocabulary_, request, 0);
  FillWords(right, vocabulary_, request, 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < length_; ++i) {
      segments[static_cast<std::size_t>(row * length_ + i)] = i < length_ / 2 ? 0 : 1;
    }
    for (std::int64_t mask = 0; mask < masks; ++mask) {
      places[static_cast<std::size_t>(row * masks + mask)] = row * length_ + mask * kMaskEvery;
    }
    following[static_cast<std::size_t>(row)] = row % 2;
  }
  std::ranges::fill(weights, 1.0F / static_cast<float>(masks));
  return {};
}

}  // namespace paceline::train

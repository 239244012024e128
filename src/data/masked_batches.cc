#include "data/masked_batches.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "data/word_pieces.h"

namespace paceline::data {

namespace {

constexpr std::uint32_t kMarks = 3;  // [CLS] and two [SEP]
constexpr std::uint64_t kHeldOutSeed =
    0x6865;  // of all held-out instances, whatever the run's seed

// Shortens the longer of the two until both fit, at its beginning or at its end.
void Shorten(CounterRng& rng, std::size_t room, std::vector<std::int32_t>& first,
             std::vector<std::int32_t>& second) {
  struct Cut {
    std::size_t begin, end;
  };
  Cut cuts[2] = {{0, first.size()}, {0, second.size()}};
  const auto length = [](const Cut& cut) { return cut.end - cut.begin; };
  while (length(cuts[0]) + length(cuts[1]) > room) {
    Cut& longer = length(cuts[0]) > length(cuts[1]) ? cuts[0] : cuts[1];
    if (rng.Below(2) == 0) {
      ++longer.begin;
    } else {
      --longer.end;
    }
  }
  const auto apply = [](const Cut& cut, std::vector<std::int32_t>& ids) {
    ids.resize(cut.end);
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut.begin));
  };
  apply(cuts[0], first);
  apply(cuts[1], second);
}

Status FillArrays(std::span<const MaskedInstance> instances, BatchBuffer& buffer) {
  std::size_t length = 0, masks = 0;
  for (const MaskedInstance& instance : instances) {
    length = std::max(length, instance.tokens.size());
    masks += instance.places.size();
  }
  const auto rows = static_cast<std::int64_t>(instances.size());
  const auto width = static_cast<std::int64_t>(length);
  const auto masked = static_cast<std::int64_t>(masks);
  PACELINE_ASSIGN(const auto tokens, buffer.Integers(0, {rows, width}));
  PACELINE_ASSIGN(const auto segments, buffer.Integers(1, {rows, width}));
  PACELINE_ASSIGN(const auto places, buffer.Integers(2, {masked}));
  PACELINE_ASSIGN(const auto right, buffer.Integers(3, {masked}));
  PACELINE_ASSIGN(const auto weights, buffer.Floats(4, {masked}));
  PACELINE_ASSIGN(const auto is_next, buffer.Integers(5, {rows}));
  std::ranges::fill(tokens, WordPieces::kPad);
  std::ranges::fill(segments, 0);
  std::size_t next = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const MaskedInstance& instance = instances[i];
    const auto row = segments.subspan(i * length, instance.tokens.size());
    std::ranges::copy(instance.tokens, tokens.subspan(i * length).begin());
    std::ranges::fill(row.subspan(instance.second), 1);
    is_next[i] = instance.is_next ? 1 : 0;
    for (std::size_t m = 0; m < instance.places.size(); ++m, ++next) {
      places[next] = static_cast<std::int64_t>(i * length + instance.places[m]);
      right[next] = instance.right[m];
      weights[next] = 1.0F / static_cast<float>(instance.places.size());
    }
  }
  return {};
}

}  // namespace

void MaskTokens(CounterRng& rng, std::uint32_t vocabulary, MaskedInstance& instance) {
  std::vector<std::uint32_t> candidates;
  for (std::uint32_t i = 1; i + 1 < instance.tokens.size(); ++i) {
    if (i + 1 != instance.second) candidates.push_back(i);  // the marks stay
  }
  const auto all = static_cast<std::uint32_t>(candidates.size());
  const std::uint32_t count = std::max(1U, (all * 15 + 50) / 100);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::swap(candidates[i], candidates[i + rng.Below(all - i)]);
  }
  candidates.resize(count);
  std::ranges::sort(candidates);
  instance.right.clear();
  for (const std::uint32_t place : candidates) {
    std::int32_t& token = instance.tokens[place];
    instance.right.push_back(token);
    const std::uint32_t kind = rng.Below(10);
    if (kind < 8) {
      token = WordPieces::kMask;
    } else if (kind == 8) {
      token = WordPieces::kFirstPiece +
              static_cast<std::int32_t>(rng.Below(vocabulary - WordPieces::kFirstPiece));
    }
  }
  instance.places = std::move(candidates);
}

Result<std::unique_ptr<MaskedBatches>> MaskedBatches::Create(
    std::shared_ptr<const DocumentSource> documents, const Options& options) {
  constexpr std::uint32_t kShortest = 8;
  if (options.max_length < kShortest) {
    return Status::Error(Code::kInvalidArgument, fmt::format("instances of {} pieces; they need {}",
                                                             options.max_length, kShortest));
  }
  if (documents->documents() < 2) {
    return Status::Error(Code::kBadData,
                         fmt::format("{} document; pairs of sentences need at least two, "
                                     "separated by empty lines",
                                     documents->documents()));
  }
  std::unique_ptr<MaskedBatches> batches(new MaskedBatches(std::move(documents), options));
  for (std::uint64_t i = 0; i < batches->documents_->documents(); ++i) {
    PACELINE_TRY(batches->CutDocument(i));
  }
  if (batches->size() > 0) return batches;
  return Status::Error(Code::kBadData, "no document has two sentences, one a line");
}

Status MaskedBatches::CutDocument(std::uint64_t document) {
  const std::uint32_t sentences = documents_->sentences(document);
  const std::size_t room = options_.max_length - kMarks;
  std::size_t pieces = 0;
  Stretch stretch{.document = document};
  for (std::uint32_t sentence = 0; sentence < sentences; ++sentence) {
    PACELINE_ASSIGN(const std::size_t length, documents_->Length(document, sentence));
    pieces += length;
    ++stretch.count;
    // A single sentence at the end stays with those before it.
    const bool last = sentence + 1 == sentences;
    const bool one_left = sentence + 2 == sentences;
    if (!last && (pieces < room || stretch.count < 2 || one_left)) continue;
    if (stretch.count >= 2) stretches_.push_back(stretch);
    stretch = {.document = document, .first = sentence + 1};
    pieces = 0;
  }
  return {};
}

Status MaskedBatches::ReadSentences(const Stretch& stretch, std::size_t enough,
                                    std::vector<std::int32_t>& ids) const {
  for (std::uint32_t i = 0; i < stretch.count && ids.size() < enough; ++i) {
    PACELINE_TRY(documents_->Read(stretch.document, stretch.first + i, ids));
  }
  return {};
}

Status MaskedBatches::ReadSecond(CounterRng& rng, const Stretch& rest, bool is_next,
                                 std::vector<std::int32_t>& ids) const {
  const std::size_t room = options_.max_length - kMarks;
  if (is_next) return ReadSentences(rest, room, ids);
  // Below takes 32 bits; more documents than that would only be drawn from in part.
  const auto others =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(documents_->documents() - 1, 0xFFFFFFFFU));
  std::uint64_t other = rng.Below(others);
  if (other >= rest.document) ++other;
  const std::uint32_t sentences = documents_->sentences(other);
  const std::uint32_t first = rng.Below(sentences);
  // As many sentences as the right ones: how long it is must not tell.
  return ReadSentences({other, first, std::min(rest.count, sentences - first)}, room, ids);
}

Status MaskedBatches::Make(std::uint64_t index, CounterRng rng, MaskedInstance& instance) const {
  const Stretch& stretch = stretches_[index];
  const std::size_t room = options_.max_length - kMarks;
  const std::uint32_t before = 1 + rng.Below(stretch.count - 1);  // sentences of the first segment
  instance.is_next = rng.Below(2) == 1;
  std::vector<std::int32_t> first, second;
  PACELINE_TRY(ReadSentences({stretch.document, stretch.first, before}, room, first));
  const Stretch rest{stretch.document, stretch.first + before, stretch.count - before};
  PACELINE_TRY(ReadSecond(rng, rest, instance.is_next, second));
  Shorten(rng, room, first, second);
  std::vector<std::int32_t>& tokens = instance.tokens;
  tokens.assign(1, WordPieces::kClass);
  tokens.insert(tokens.end(), first.begin(), first.end());
  tokens.push_back(WordPieces::kSeparator);
  instance.second = tokens.size();
  tokens.insert(tokens.end(), second.begin(), second.end());
  tokens.push_back(WordPieces::kSeparator);
  MaskTokens(rng, documents_->vocabulary(), instance);
  return {};
}

Status MaskedBatches::Fill(const FillRequest& request, BatchBuffer& buffer) const {
  std::vector<MaskedInstance> instances(request.samples.size());
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (request.stop.stop_requested()) {
      return Status::Error(Code::kAborted, "the loader is closing");
    }
    const SampleRef& sample = request.samples[i];
    const CounterRng rng =
        request.training
            ? CounterRng(request.seed, Purpose::kAugment, request.step.value(), sample.place)
            : CounterRng(kHeldOutSeed, Purpose::kAugment, sample.index, 0);
    PACELINE_TRY(Make(sample.index, rng, instances[i]));
  }
  return FillArrays(instances, buffer);
}

std::string MaskedBatches::Fingerprint() const {
  return fmt::format("{} instances:{} of {}", documents_->Fingerprint(), size(),
                     options_.max_length);
}

}  // namespace paceline::data

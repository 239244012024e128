#include "data/synthetic_translation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "data/byte_pairs.h"

namespace paceline::data {

namespace {

using Task = SyntheticTranslationOptions::Task;

constexpr std::uint32_t kSpecialIds = BytePairs::kFirstByte;  // as in vocabularies of real text
constexpr std::uint32_t kLongestList = 40;                    // words of copy and reverse
constexpr std::uint32_t kLongestClause = 8;                   // words
constexpr std::uint32_t kMostClauses = 5;  // sentences of about 25 words, as in news

// A number below `count`: every octave [2^k - 1, 2^(k+1) - 1) is equally likely.
std::uint32_t ZipfBelow(CounterRng& rng, std::uint32_t count) {
  const auto octaves = static_cast<std::uint32_t>(std::bit_width(count));
  const std::uint32_t octave = rng.Below(octaves);
  const std::uint32_t first = (1U << octave) - 1;
  return first + rng.Below(std::min(first + 1, count - first));
}

// The second language has as many words, and determiners twice.
std::uint32_t WordsFor(std::uint32_t vocabulary) {
  const std::uint32_t ids = vocabulary - kSpecialIds;
  return (ids - std::max(1U, ids / 32)) / 2;
}

}  // namespace

struct SyntheticTranslation::NounPhrase {
  std::uint32_t determiner = 0, noun = 0, adjective = 0;
  bool has_adjective = false;
};

Result<SyntheticTranslation> SyntheticTranslation::Create(
    const SyntheticTranslationOptions& options) {
  if (options.vocabulary < SyntheticTranslationOptions::kSmallestVocabulary ||
      options.max_length < kLongestClause + 4) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("synthetic translation needs a vocabulary of {} and {} pieces a sentence, "
                    "not {} and {}",
                    SyntheticTranslationOptions::kSmallestVocabulary, kLongestClause + 4,
                    options.vocabulary, options.max_length));
  }
  return SyntheticTranslation(options);
}

SyntheticTranslation::SyntheticTranslation(const SyntheticTranslationOptions& options)
    : options_(options),
      words_(WordsFor(options.vocabulary)),
      dictionary_(options.seed, 0, words_) {
  std::uint32_t next = 0;
  const auto take = [&next](std::uint32_t count) {
    const Words words{next, std::max(1U, count)};
    next += words.count;
    return words;
  };
  // As many determiners as WordsFor left second forms for.
  determiners_ = take((options.vocabulary - kSpecialIds) / 32);
  conjunctions_ = take(words_ / 32);
  adverbs_ = take(words_ / 8);
  adjectives_ = take(words_ / 8);
  verbs_ = take(words_ / 4);
  nouns_ = take(words_ - next);
}

std::int32_t SyntheticTranslation::SourceId(std::uint32_t word) const {
  return static_cast<std::int32_t>(kSpecialIds + word);
}

std::int32_t SyntheticTranslation::TargetId(std::uint32_t word) const {
  return static_cast<std::int32_t>(kSpecialIds + words_ + dictionary_.At(word));
}

void SyntheticTranslation::AddClause(CounterRng& rng, SentencePair& pair) const {
  const auto draw = [&rng](const Words& words) {
    return words.first + ZipfBelow(rng, words.count);
  };
  const auto draw_phrase = [&] {
    NounPhrase phrase{.determiner = draw(determiners_), .noun = draw(nouns_)};
    phrase.has_adjective = rng.Below(2) == 1;
    if (phrase.has_adjective) phrase.adjective = draw(adjectives_);
    return phrase;
  };
  const NounPhrase subject = draw_phrase();
  const std::uint32_t verb = draw(verbs_);
  const NounPhrase object = draw_phrase();
  const bool has_adverb = rng.Below(2) == 1;
  const std::uint32_t adverb = draw(adverbs_);

  const auto say = [&](const NounPhrase& phrase) {
    pair.source.push_back(SourceId(phrase.determiner));
    if (phrase.has_adjective) pair.source.push_back(SourceId(phrase.adjective));
    pair.source.push_back(SourceId(phrase.noun));
  };
  say(subject);
  pair.source.push_back(SourceId(verb));
  say(object);
  if (has_adverb) pair.source.push_back(SourceId(adverb));

  const auto translate = [&](const NounPhrase& phrase) {
    pair.target.push_back(TargetId(phrase.noun));
    if (phrase.has_adjective) pair.target.push_back(TargetId(phrase.adjective));
    const bool second_form = phrase.noun % 2 == 1;
    pair.target.push_back(
        second_form ? static_cast<std::int32_t>(kSpecialIds + 2 * words_ + phrase.determiner)
                    : TargetId(phrase.determiner));
  };
  translate(subject);
  translate(object);
  if (has_adverb) pair.target.push_back(TargetId(adverb));
  pair.target.push_back(TargetId(verb));
}

void SyntheticTranslation::Make(std::uint64_t index, SentencePair& pair) const {
  CounterRng rng(options_.seed, Purpose::kSynthetic, index,
                 options_.split == Split::kTrain ? 0 : 1);
  pair.source.clear();
  pair.target.clear();
  const std::size_t most = options_.max_length - 1;  // the target's end takes one
  if (options_.task != Task::kGrammar) {
    const std::uint32_t length =
        1 + rng.Below(std::min(kLongestList, static_cast<std::uint32_t>(most)));
    for (std::uint32_t i = 0; i < length; ++i) {
      pair.source.push_back(SourceId(ZipfBelow(rng, options_.vocabulary - kSpecialIds)));
    }
    pair.target = pair.source;
    if (options_.task == Task::kReverse) std::ranges::reverse(pair.target);
    return;
  }
  const std::uint32_t clauses = 1 + rng.Below(kMostClauses);
  for (std::uint32_t i = 0; i < clauses; ++i) {
    if (most - pair.source.size() < kLongestClause + 1) break;
    if (i > 0) {
      const std::uint32_t word = conjunctions_.first + ZipfBelow(rng, conjunctions_.count);
      pair.source.push_back(SourceId(word));
      pair.target.push_back(TargetId(word));
    }
    AddClause(rng, pair);
  }
}

Status SyntheticTranslation::Read(std::uint64_t index, SentencePair& pair) const {
  if (index >= size()) {
    return Status::Error(Code::kInvalidArgument, fmt::format("pair {} of {}", index, size()));
  }
  Make(index, pair);
  return {};
}

PairLengths SyntheticTranslation::Lengths(std::uint64_t index) const {
  SentencePair pair;
  Make(index, pair);
  return {static_cast<std::uint32_t>(pair.source.size()),
          static_cast<std::uint32_t>(pair.target.size())};
}

std::string SyntheticTranslation::Fingerprint() const {
  return fmt::format(
      "synthetic-translation:1 task:{} seed:{} split:{} size:{} vocabulary:{} "
      "length:{}",
      static_cast<int>(options_.task), options_.seed,
      options_.split == Split::kTrain ? "train" : "test", options_.size, options_.vocabulary,
      options_.max_length);
}

}  // namespace paceline::data

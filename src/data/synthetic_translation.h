#pragma once

#include <cstdint>
#include <string>

#include "algo/sample_order.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/cifar10.h"
#include "data/translation_source.h"

namespace paceline::data {

struct SyntheticTranslationOptions {
  enum class Task {
    kCopy,     // the target is the source
    kReverse,  // the target is the source, last word first
    kGrammar,  // see below
  };
  static constexpr std::uint32_t kSmallestVocabulary = 40;

  std::uint64_t seed = 0;
  std::uint64_t size = 50'000;
  Split split = Split::kTrain;  // both have one language and one dictionary
  Task task = Task::kGrammar;
  std::uint32_t vocabulary = 64;  // ids, the four special ones included; from 40 on
  std::uint32_t max_length = 32;  // of either side; the target's end is one of them; from 12 on
};

// Sentences of a made-up language and their translations; each a pure function of (seed, split,
// index). Copy and reverse: 1 to 40 words of Zipf's law.
//
// Grammar: clauses of DETERMINER [ADJECTIVE] NOUN VERB DETERMINER [ADJECTIVE] NOUN [ADVERB], with a
// conjunction between two clauses. Translation replaces each word by its own word of the other
// language, puts determiner and adjective behind the noun, adverb and verb at the end of the
// clause, and gives determiners one of two forms, which their noun decides. So a word's translation
// depends on its neighbours and stands elsewhere, and yet the source decides everything: a perfect
// model reaches loss 0 (without label smoothing) and BLEU 100. Words follow Zipf's law in steps
// (each octave of ranks is equally likely), so that large vocabularies can be learnt from as well.
//
// Immutable, thread-safe.
class SyntheticTranslation final : public TranslationSource {
 public:
  static Result<SyntheticTranslation> Create(const SyntheticTranslationOptions& options);

  std::uint64_t size() const override { return options_.size; }
  Status Read(std::uint64_t index, SentencePair& pair) const override;
  PairLengths Lengths(std::uint64_t index) const override;
  std::string Fingerprint() const override;

 private:
  // Words of one kind: [first, first + count) of the language's own numbers.
  struct Words {
    std::uint32_t first = 0, count = 0;
  };
  struct NounPhrase;

  explicit SyntheticTranslation(const SyntheticTranslationOptions& options);
  void Make(std::uint64_t index, SentencePair& pair) const;
  void AddClause(CounterRng& rng, SentencePair& pair) const;
  std::int32_t SourceId(std::uint32_t word) const;
  std::int32_t TargetId(std::uint32_t word) const;

  SyntheticTranslationOptions options_;
  std::uint32_t words_;  // of either language, the second forms of determiners not counted
  Words determiners_, conjunctions_, adverbs_, adjectives_, verbs_, nouns_;
  algo::SampleOrder dictionary_;
};

}  // namespace paceline::data

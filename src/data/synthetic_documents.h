#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "data/cifar10.h"
#include "data/document_source.h"

namespace paceline::data {

struct SyntheticDocumentsOptions {
  static constexpr std::uint32_t kSmallestVocabulary = 24;

  std::uint64_t seed = 0;
  std::uint64_t documents = 50'000;
  Split split = Split::kTrain;     // both have one language
  std::uint32_t vocabulary = 64;   // ids, the five special ones included; from 24 on
  std::uint32_t max_length = 128;  // of an instance: a document makes exactly one; from 15 on
};

// Documents with planted structure, each a pure function of (seed, split, document).
//
// A document has one topic, and its sentences have the form DETERMINER NOUN VERB DETERMINER NOUN
// STOP. Determiner, noun and verb agree in number; each noun has a verb of its own; the object of a
// sentence is the subject of the next, in the same number. Hidden words can so be told from their
// neighbours, from the sentences before and after, or else guessed from the topic; and the next
// sentence from its topic and its subject.
//
// Levels, with 64 ids (masked_test.cc holds bounds): the most frequent word is right in 17 % of the
// hidden places; the rules, applied by hand, in 88 % of instances of 32 pieces and 96 % of 128.
// Next sentences: 50 % by chance, 98 % by comparing object and subject.
//
// Immutable, thread-safe.
class SyntheticDocuments final : public DocumentSource {
 public:
  static constexpr std::uint32_t kSentenceWords = 6;
  static constexpr std::int32_t kStop = 5, kSingular = 6, kPlural = 7, kFirstWord = 8;
  // Of each noun there are four ids in a row: noun, nouns, verb, verbs.
  static constexpr std::uint32_t kForms = 4;

  static Result<SyntheticDocuments> Create(const SyntheticDocumentsOptions& options);

  std::uint64_t documents() const override { return options_.documents; }
  std::uint32_t sentences(std::uint64_t) const override { return sentences_; }
  Status Read(std::uint64_t document, std::uint32_t sentence,
              std::vector<std::int32_t>& ids) const override;
  std::uint32_t vocabulary() const override { return options_.vocabulary; }
  std::string Fingerprint() const override;

  std::uint32_t topics() const { return topics_; }
  std::uint32_t nouns() const { return nouns_; }  // of each topic

 private:
  explicit SyntheticDocuments(const SyntheticDocumentsOptions& options);

  SyntheticDocumentsOptions options_;
  std::uint32_t sentences_, topics_, nouns_;
};

}  // namespace paceline::data

#include "data/synthetic_documents.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rng.h"

namespace paceline::data {

namespace {

constexpr std::uint32_t kInstanceMarks = 3;  // of an instance; see masked_batches.h
constexpr std::uint32_t kMostTopics = 64;    // more could not be told apart after a short training
constexpr std::uint32_t kMostNouns = 16;

}  // namespace

Result<SyntheticDocuments> SyntheticDocuments::Create(const SyntheticDocumentsOptions& options) {
  constexpr std::uint32_t kShortest = kInstanceMarks + 2 * kSentenceWords;
  if (options.vocabulary < SyntheticDocumentsOptions::kSmallestVocabulary ||
      options.max_length < kShortest) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("synthetic documents need a vocabulary of {} and {} pieces an instance, "
                    "not {} and {}",
                    SyntheticDocumentsOptions::kSmallestVocabulary, kShortest, options.vocabulary,
                    options.max_length));
  }
  return SyntheticDocuments(options);
}

SyntheticDocuments::SyntheticDocuments(const SyntheticDocumentsOptions& options)
    : options_(options), sentences_((options.max_length - kInstanceMarks) / kSentenceWords) {
  const std::uint32_t all_nouns = (options.vocabulary - kFirstWord) / kForms;
  topics_ = std::clamp(all_nouns / 4, 2U, kMostTopics);
  nouns_ = std::min(all_nouns / topics_, kMostNouns);
}

Status SyntheticDocuments::Read(std::uint64_t document, std::uint32_t sentence,
                                std::vector<std::int32_t>& ids) const {
  if (document >= documents() || sentence >= sentences_) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("sentence {} of document {}", sentence, document));
  }
  const std::uint64_t split = options_.split == Split::kTrain ? 0 : 1;
  CounterRng rng(options_.seed, Purpose::kSynthetic, document, split);
  const std::uint32_t topic = rng.Below(topics_);
  // The subjects of all sentences are one sequence: a sentence's object is the next one of it.
  struct Thing {
    std::int32_t first_form;
    std::int32_t number;  // 0: one, 1: several
  };
  const auto draw = [&]() -> Thing {
    const std::uint32_t noun = topic * nouns_ + rng.Below(nouns_);
    return {static_cast<std::int32_t>(kFirstWord + noun * kForms),
            static_cast<std::int32_t>(rng.Below(2))};
  };
  Thing subject = draw(), object = draw();
  for (std::uint32_t i = 0; i < sentence; ++i) {
    subject = object;
    object = draw();
  }
  for (const std::int32_t id : {kSingular + subject.number, subject.first_form + subject.number,
                                subject.first_form + 2 + subject.number, kSingular + object.number,
                                object.first_form + object.number, kStop}) {
    ids.push_back(id);
  }
  return {};
}

std::string SyntheticDocuments::Fingerprint() const {
  return fmt::format("synthetic-documents:1 seed:{} split:{} documents:{} vocabulary:{} length:{}",
                     options_.seed, options_.split == Split::kTrain ? "train" : "test",
                     options_.documents, options_.vocabulary, options_.max_length);
}

}  // namespace paceline::data

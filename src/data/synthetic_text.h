#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "data/text_source.h"

namespace paceline::data {

// a is to b as c is to d.
struct AnalogyQuestion {
  std::int32_t a = 0, b = 0, c = 0, d = 0;
};

// How alike two words are meant to be; only the order of values has a meaning.
struct SimilarityPair {
  std::int32_t first = 0, second = 0;
  float similarity = 0;
};

struct SyntheticTextOptions {
  std::uint64_t seed = 0;
  std::uint64_t sentences = 20'000;
  std::uint32_t sentence_words = 20;
  std::uint32_t background = 1000;  // words without meaning, with Zipf's frequencies
  std::uint32_t pairs = 20;         // pairs (a_i, b_i) of one relation; 0: background alone
};

// Text with planted analogies. Each pair (a_i, b_i) has topic words of its own; all a share one set
// of marker words and all b another. A sentence is about one pair and one side: it mixes that word,
// topic words of the pair and markers of the side with background words. Contexts of b_i and a_i so
// differ in the markers alone, the same way for every i, and skip-gram learns b_i - a_i = constant.
//
// Each sentence is a pure function of (seed, sentence). Immutable, thread-safe. Does not resemble
// language: accuracies compare algorithms, not papers.
class SyntheticText final : public TextSource {
 public:
  explicit SyntheticText(const SyntheticTextOptions& options);

  std::uint64_t sentences() const override { return options_.sentences; }
  const std::vector<std::uint64_t>& counts() const override { return counts_; }
  Status Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const override;
  std::string Fingerprint() const override;

  // All ordered pairs of pairs.
  std::vector<AnalogyQuestion> Questions() const;
  // The two words of a pair 3, words on one side 2, words with neither in common 1, with the
  // background 0.
  std::vector<SimilarityPair> Similarities() const;

 private:
  static constexpr std::uint32_t kTopics = 8;    // of each pair
  static constexpr std::uint32_t kMarkers = 20;  // of each side

  std::int32_t Member(std::uint32_t pair, std::uint32_t side) const;
  std::int32_t Topic(std::uint32_t pair, std::uint32_t number) const;
  std::int32_t Marker(std::uint32_t side, std::uint32_t number) const;
  std::int32_t Background(float uniform) const;
  void CountExpected();

  SyntheticTextOptions options_;
  std::vector<float> cumulative_;  // of the background's frequencies, rising to 1
  std::vector<std::uint64_t> counts_;
};

}  // namespace paceline::data

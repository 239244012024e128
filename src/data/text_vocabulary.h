#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// Lets maps of strings be asked with a view, without making a string.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using WordCounts = std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>>;

// Replaces `line` by its normal form: lower case, letters a to z, words separated by one blank.
// White space separates; every other byte is left out, as the published preprocessing does.
void NormaliseLine(std::string& line);

// The words of a text and how often each is there. Id 0 is <UNK>, which stands for all rare words;
// the others follow by falling count, equal counts in alphabetical order, so that ids do not depend
// on the order of files. Immutable value.
class Vocabulary {
 public:
  static constexpr std::int32_t kUnknown = 0;
  static constexpr std::string_view kUnknownWord = "<UNK>";

  Vocabulary() : Vocabulary(WordCounts{}, 0) {}
  // Words seen at most `min_count` times become <UNK>.
  Vocabulary(const WordCounts& counts, std::uint64_t min_count);

  // Text: one "word count" per line, in order of ids.
  static Result<Vocabulary> Load(const std::filesystem::path& path);
  Status Save(const std::filesystem::path& path) const;

  std::size_t size() const { return words_.size(); }
  const std::string& word(std::int32_t id) const { return words_[static_cast<std::size_t>(id)]; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }  // by id
  std::int32_t Find(std::string_view word) const;                       // kUnknown when not there
  std::uint64_t Hash() const;  // of the words in order; equal ids mean equal words

 private:
  Status Add(std::string_view word, std::uint64_t count);

  std::vector<std::string> words_;
  std::vector<std::uint64_t> counts_;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> ids_;
};

// Which words of a sentence are trained on: frequent ones are left out at random. A word of count c
// out of T is kept with probability (sqrt(c / (t T)) + 1) t T / c (word2vec.c; Mikolov et al. 2013
// print another formula). What is kept is a function of (seed, epoch, sentence, place) alone.
// Immutable, thread-safe.
class Subsampler {
 public:
  // threshold t; 0 keeps everything.
  Subsampler(std::uint64_t seed, double threshold, const std::vector<std::uint64_t>& counts);

  // Removes the words that are left out.
  void Apply(std::uint64_t epoch, std::uint64_t sentence, std::vector<std::int32_t>& words) const;
  double KeepProbability(std::int32_t word) const;

 private:
  std::uint64_t seed_;
  std::vector<std::uint32_t> keep_below_;  // by word: kept when a random number is not above
};

}  // namespace paceline::data

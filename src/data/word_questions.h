#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/status.h"
#include "data/synthetic_text.h"
#include "data/text_vocabulary.h"

namespace paceline::data {

// Answers to analogies are looked for among so many most frequent words, and questions about others
// are left out, as word2vec's own compute-accuracy does.
inline constexpr std::int32_t kQuestionWords = 30'000;

template <typename Question>
struct WordQuestions {
  std::vector<Question> known;
  std::uint64_t left_out = 0;  // with a word that the vocabulary does not have
};

// The format of word2vec's questions-words.txt: four words a line, "a is to b as c is to d"; lines
// that begin with ':' are headings. Words are compared in lower case. kBadData names file and line.
Result<WordQuestions<AnalogyQuestion>> ReadAnalogies(const std::filesystem::path& path,
                                                     const Vocabulary& vocabulary);

// Two words and a number a line, separated by tabs, commas or blanks, as in WordSim-353; the first
// line may be a heading, lines that begin with '#' are comments. kBadData names file and line.
Result<WordQuestions<SimilarityPair>> ReadSimilarities(const std::filesystem::path& path,
                                                       const Vocabulary& vocabulary);

}  // namespace paceline::data

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/text_lines.h"
#include "data/tokenizer.h"
#include "data/word_pieces.h"

namespace paceline::data {

enum class PieceKind { kBytePairs, kWordPieces };

struct VocabularyOptions {
  PieceKind kind = PieceKind::kBytePairs;
  std::size_t pieces = 0;                  // at most; what the model has embeddings for
  LetterCase letters = LetterCase::kKeep;  // of word pieces that are learnt
  std::filesystem::path file;              // to take; empty: one that is learnt
  std::filesystem::path cache;             // folder where learnt ones are kept
};

struct OpenedVocabulary {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> notes;     // what was done, for people
  std::vector<std::string> warnings;  // what did not work, but could be done without
};

// The vocabulary of a file, or the one of these texts: from the cache if it was learnt before, else
// learnt now and put there. Learning is a function of texts and options, so several workers may do
// it at once: all get the same, and what they put into the cache is the same. A damaged file of the
// cache is learnt anew; a damaged `file` is kBadData with its line.
Result<OpenedVocabulary> OpenVocabulary(const VocabularyOptions& options,
                                        std::span<const TextLines* const> texts);

}  // namespace paceline::data

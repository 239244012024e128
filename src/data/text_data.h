#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/batch.h"
#include "data/cifar10.h"
#include "data/tokenizer.h"
#include "data/word_pieces.h"

namespace paceline::data {

// Names are those of the flags that set them.
struct TextDataOptions {
  std::filesystem::path data;
  std::filesystem::path vocab;             // empty: learnt, and kept in DATA/.paceline
  std::string languages;                   // of parallel text, "en-de"; empty: src-tgt
  std::size_t batch_tokens = 0;            // of parallel text: a sample is a pack; 0: a pair
  LetterCase letters = LetterCase::kKeep;  // of word pieces
  BadRecord policy = BadRecord::kFail;
  std::uint64_t seed = 0;
  std::size_t pieces = 0;      // the model's vocabulary
  std::size_t max_length = 0;  // the model's
};

struct TextData {
  std::unique_ptr<BatchSource> train, held_out;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> notes, warnings;
};

// A folder with train.SRC and train.TGT, and valid.SRC and valid.TGT or newstest*.SRC and
// newstest*.TGT: docs/data.md. Held-out samples are always single pairs.
Result<TextData> OpenTranslationData(const TextDataOptions& options);

// A text file, or a folder of them: those named valid* are held out, or else every 100th document.
Result<TextData> OpenMaskedData(const TextDataOptions& options);

}  // namespace paceline::data

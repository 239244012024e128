#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/text_lines.h"
#include "data/text_source.h"
#include "data/text_vocabulary.h"

namespace paceline::data {

struct TextCorpusOptions {
  std::uint64_t min_count = 5;       // words seen at most so often become <UNK>
  std::filesystem::path vocabulary;  // made by Vocabulary::Save; empty: counted while opening
};

// Plain text in a file or in those of a folder, a sentence per line: the layout of the
// one-billion-word benchmark (Chelba et al. 2013). A line without any word is a sentence without
// words. Immutable, thread-safe; owns the open files.
class TextCorpus final : public TextSource {
 public:
  // Reads everything once, so that bad data is found before training.
  static Result<std::unique_ptr<TextCorpus>> Open(const std::filesystem::path& path,
                                                  const TextCorpusOptions& options);

  std::uint64_t sentences() const override { return lines_.size(); }
  const std::vector<std::uint64_t>& counts() const override { return vocabulary_.counts(); }
  Status Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const override;
  std::string Fingerprint() const override;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  TextCorpus() = default;

  TextLines lines_;
  Vocabulary vocabulary_;
};

}  // namespace paceline::data

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "data/text_source.h"
#include "data/text_vocabulary.h"

namespace paceline::data {

struct TextCorpusOptions {
  std::uint64_t min_count = 5;       // words seen at most so often become <UNK>
  std::filesystem::path vocabulary;  // made by Vocabulary::Save; empty: counted while opening
};

// Plain text in the files of a folder, a sentence per line: the layout of the one-billion-word
// benchmark (Chelba et al. 2013). Files are taken by name; a line without any word is a sentence
// without words. Immutable, thread-safe; owns the open files. Reads with pread where the files are,
// and keeps the place of every 16th sentence only: 15 MB for the 30 million of the benchmark.
class TextCorpus final : public TextSource {
 public:
  static constexpr std::uint64_t kLongestLine = 1 << 20;  // bytes; longer is not a sentence

  // Reads everything once, so that bad data (a byte 0, a line without end) is found before
  // training.
  static Result<std::unique_ptr<TextCorpus>> Open(const std::filesystem::path& folder,
                                                  const TextCorpusOptions& options);

  std::uint64_t sentences() const override { return sentences_; }
  const std::vector<std::uint64_t>& counts() const override { return vocabulary_.counts(); }
  Status Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const override;
  std::string Fingerprint() const override { return fingerprint_; }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct File {
    std::string path;
    UniqueFd fd;
    std::uint64_t bytes = 0;
    std::uint64_t first_sentence = 0;
    std::vector<std::uint64_t> places;  // of every kStride-th line
  };
  static constexpr std::uint64_t kStride = 16;

  TextCorpus() = default;
  Status AddFile(const std::filesystem::path& path, WordCounts* counts);
  Status ScanFile(File& file, WordCounts* counts);
  Status ReadLine(std::uint64_t sentence, std::string& line) const;

  std::vector<File> files_;
  std::uint64_t sentences_ = 0;
  Vocabulary vocabulary_;
  std::string fingerprint_;
};

}  // namespace paceline::data

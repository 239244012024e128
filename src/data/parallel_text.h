#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "data/cifar10.h"
#include "data/text_lines.h"
#include "data/tokenizer.h"
#include "data/translation_source.h"

namespace paceline::data {

// Two texts of equal numbers of lines: line n of the one translates line n of the other.
// Immutable, thread-safe; owns the open files.
class ParallelLines {
 public:
  struct Files {
    std::vector<std::filesystem::path> source, target;  // of equal number, in the same order
  };
  // Every line is UTF-8 and not blank, else kBadData with file, line and byte offset; with kSkip
  // such lines are left out on both sides. Files of different numbers of lines are always refused.
  static Result<std::shared_ptr<const ParallelLines>> Open(const Files& files, BadRecord policy);

  const TextLines& source() const { return source_; }
  const TextLines& target() const { return target_; }
  const std::vector<std::uint64_t>& bad() const { return bad_; }  // numbers of lines, rising

 private:
  TextLines source_, target_;
  std::vector<std::uint64_t> bad_;
};

struct ParallelTextOptions {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::size_t max_length = 0;  // pieces of either side; the target's end is one of them
  BadRecord policy = BadRecord::kFail;
  std::filesystem::path cache;  // folder that keeps the lengths of lines
};

// Parallel text as pieces. Immutable, thread-safe.
class ParallelText final : public TranslationSource {
 public:
  // Needs all lengths: piece_lengths.h. A line that is too long is bad data, as above.
  static Result<std::unique_ptr<ParallelText>> Open(std::shared_ptr<const ParallelLines> lines,
                                                    const ParallelTextOptions& options);

  std::uint64_t size() const override { return lengths_.size(); }
  Status Read(std::uint64_t index, SentencePair& pair) const override;
  PairLengths Lengths(std::uint64_t index) const override { return lengths_[index]; }
  std::string Fingerprint() const override;
  std::uint64_t BadRecords() const override { return lines_->source().size() - size(); }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  ParallelText(std::shared_ptr<const ParallelLines> lines, const ParallelTextOptions& options)
      : lines_(std::move(lines)), options_(options) {}
  Status Measure();
  // Takes the pairs that are good.
  Status Choose(std::span<const std::uint32_t> sources, std::span<const std::uint32_t> targets);
  Status TooLong(const TextLines& text, std::uint64_t line, std::size_t pieces) const;

  std::shared_ptr<const ParallelLines> lines_;
  ParallelTextOptions options_;
  std::vector<PairLengths> lengths_;    // of good pairs
  std::vector<std::uint64_t> numbers_;  // of their lines; empty when all are good
  std::vector<std::string> warnings_;
};

}  // namespace paceline::data

#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "data/cifar10.h"
#include "data/document_source.h"
#include "data/text_lines.h"
#include "data/tokenizer.h"

namespace paceline::data {

// Which lines are documents: sentences are lines; blank lines and ends of files separate documents.
// Immutable, thread-safe; owns the open files.
class DocumentLines {
 public:
  struct Document {
    std::uint64_t first_line = 0;
    std::uint32_t lines = 0;
  };
  // A line that is not UTF-8 is kBadData with file, line and byte offset; with kSkip it ends a
  // document like a blank line, and is counted.
  static Result<std::shared_ptr<const DocumentLines>> Open(
      const std::vector<std::filesystem::path>& files, BadRecord policy);

  const TextLines& lines() const { return lines_; }
  const std::vector<Document>& documents() const { return documents_; }
  std::uint64_t bad() const { return bad_; }

 private:
  TextLines lines_;
  std::vector<Document> documents_;
  std::uint64_t bad_ = 0;
};

// Some documents of a text, as pieces. Immutable, thread-safe.
class PlainDocuments final : public DocumentSource {
 public:
  enum class Part { kAll, kWithoutHeldOut, kHeldOut };  // held out: every 100th, and the last

  // Of the whole text; parts of one share it.
  struct Pieces {
    std::shared_ptr<const DocumentLines> text;
    std::shared_ptr<const Tokenizer> tokenizer;
    std::vector<std::uint32_t> lengths;  // of every line: piece_lengths.h
  };

  PlainDocuments(std::shared_ptr<const Pieces> pieces, Part part);

  std::uint64_t documents() const override { return chosen_.size(); }
  std::uint32_t sentences(std::uint64_t document) const override { return chosen_[document].lines; }
  Status Read(std::uint64_t document, std::uint32_t sentence,
              std::vector<std::int32_t>& ids) const override;
  Result<std::size_t> Length(std::uint64_t document, std::uint32_t sentence) const override {
    return pieces_->lengths[chosen_[document].first_line + sentence];
  }
  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(pieces_->tokenizer->size());
  }
  std::string Fingerprint() const override;
  std::uint64_t BadRecords() const override {
    return part_ == Part::kHeldOut ? 0 : pieces_->text->bad();  // counted once
  }

 private:
  std::shared_ptr<const Pieces> pieces_;
  Part part_;
  std::vector<DocumentLines::Document> chosen_;
};

}  // namespace paceline::data

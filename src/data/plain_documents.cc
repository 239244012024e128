#include "data/plain_documents.h"

#include <fmt/format.h>

#include "data/fnv.h"
#include "data/text_check.h"

namespace paceline::data {

namespace {

constexpr std::size_t kHeldOutEvery = 100;

bool IsHeldOut(std::size_t document, std::size_t documents) {
  return document % kHeldOutEvery == kHeldOutEvery - 1 || document + 1 == documents;
}

}  // namespace

Result<std::shared_ptr<const DocumentLines>> DocumentLines::Open(
    const std::vector<std::filesystem::path>& files, BadRecord policy) {
  auto text = std::make_shared<DocumentLines>();
  std::vector<bool> is_sentence;  // by line
  PACELINE_ASSIGN(text->lines_, TextLines::Open(files, [&](std::string& line) -> Status {
                    Status good = CheckUtf8(line);
                    if (!good.ok() && policy == BadRecord::kFail) return good;
                    if (!good.ok()) ++text->bad_;
                    is_sentence.push_back(good.ok() && !IsBlank(line));
                    return {};
                  }));
  for (const TextLines::FileLines& file : text->lines_.Files()) {
    bool inside = false;
    for (std::uint64_t line = file.first; line < file.first + file.count; ++line) {
      if (is_sentence[line] && !inside) text->documents_.push_back({line, 0});
      inside = is_sentence[line];
      if (inside) ++text->documents_.back().lines;
    }
  }
  return std::shared_ptr<const DocumentLines>(std::move(text));
}

PlainDocuments::PlainDocuments(std::shared_ptr<const DocumentLines> text,
                               std::shared_ptr<const Tokenizer> tokenizer, Part part)
    : text_(std::move(text)), tokenizer_(std::move(tokenizer)), part_(part) {
  const auto& all = text_->documents();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool wanted = part == Part::kAll || IsHeldOut(i, all.size()) == (part == Part::kHeldOut);
    if (wanted) chosen_.push_back(all[i]);
  }
}

Status PlainDocuments::Read(std::uint64_t document, std::uint32_t sentence,
                            std::vector<std::int32_t>& ids) const {
  const DocumentLines::Document& place = chosen_[document];
  const std::size_t before = ids.size();
  std::string line;
  PACELINE_TRY(text_->lines().Read(place.first_line + sentence, line));
  tokenizer_->Encode(line, ids);
  if (ids.size() > before) return {};
  return Status::Error(Code::kBadData,
                       fmt::format("{}: changed since it was opened",
                                   text_->lines().Describe(place.first_line + sentence)));
}

std::string PlainDocuments::Fingerprint() const {
  return fmt::format("documents {}part:{} vocabulary:{:016x} documents:{}",
                     text_->lines().fingerprint(), static_cast<int>(part_),
                     Fnv(tokenizer_->ToFile("").ToText()), documents());
}

}  // namespace paceline::data

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

PlainDocuments::PlainDocuments(std::shared_ptr<const Pieces> pieces, Part part)
    : pieces_(std::move(pieces)), part_(part) {
  const auto& all = pieces_->text->documents();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool wanted = part == Part::kAll || IsHeldOut(i, all.size()) == (part == Part::kHeldOut);
    if (wanted) chosen_.push_back(all[i]);
  }
}

Status PlainDocuments::Read(std::uint64_t document, std::uint32_t sentence,
                            std::vector<std::int32_t>& ids) const {
  const TextLines& lines = pieces_->text->lines();
  const std::uint64_t number = chosen_[document].first_line + sentence;
  const std::size_t before = ids.size();
  std::string line;
  PACELINE_TRY(lines.Read(number, line));
  pieces_->tokenizer->Encode(WithoutReturn(line), ids);
  if (ids.size() - before == pieces_->lengths[number]) return {};
  return Status::Error(Code::kBadData,
                       fmt::format("{}: changed since it was opened", lines.Describe(number)));
}

std::string PlainDocuments::Fingerprint() const {
  return fmt::format("documents {}part:{} vocabulary:{:016x} documents:{}",
                     pieces_->text->lines().fingerprint(), static_cast<int>(part_),
                     Fnv(pieces_->tokenizer->ToFile("").ToText()), documents());
}

}  // namespace paceline::data

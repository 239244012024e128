// Arbitrary bytes as a vocabulary file: what is accepted can be written again with the same bytes,
// and cuts text into pieces that it has. Without the right checksum little is accepted, so the
// entries are tried as a file of either kind as well.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "data/byte_pairs.h"
#include "data/vocabulary_file.h"
#include "data/word_pieces.h"

namespace {

using namespace paceline;

template <typename Kind>
void Try(const data::VocabularyFile& file) {
  const auto made = Kind::FromFile(file);
  if (!made.ok()) return;
  const std::string again = (*made)->ToFile(file.learnt_from).ToText();
  const auto parsed = data::VocabularyFile::Parse(again);
  PACELINE_CHECK(parsed.ok() && parsed->entries.size() == file.entries.size(), "not read back");
  std::vector<std::int32_t> ids;
  (*made)->Encode("some text, with \xC3\xA4\xFF in it", ids);
  for (const std::int32_t id : ids) {
    PACELINE_CHECK(id > 0 && static_cast<std::size_t>(id) < (*made)->size(), "no such piece");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto file = data::VocabularyFile::Parse(text); file.ok()) {
    PACELINE_CHECK(file->ToText() == text, "other bytes than were read");
  }
  data::VocabularyFile entries{.learnt_from = "x"};
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    entries.entries.emplace_back(line);
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
  }
  entries.kind = data::BytePairs::kKind;
  Try<data::BytePairs>(entries);
  entries.kind = data::WordPieces::kKind;
  Try<data::WordPieces>(entries);
  return 0;
}

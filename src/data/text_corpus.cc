#include "data/text_corpus.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace paceline::data {

namespace {

// Calls visit(word) for each word of a line in normal form.
template <typename Visit>
void ForEachWord(std::string_view line, Visit visit) {
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    visit(word);
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
}

void CountWords(std::string& line, WordCounts& counts) {
  NormaliseLine(line);
  ForEachWord(line, [&](std::string_view word) {
    auto found = counts.find(word);
    if (found == counts.end()) found = counts.emplace(word, 0).first;
    ++found->second;
  });
}

}  // namespace

Result<std::unique_ptr<TextCorpus>> TextCorpus::Open(const std::filesystem::path& path,
                                                     const TextCorpusOptions& options) {
  std::unique_ptr<TextCorpus> corpus(new TextCorpus());
  const bool count = options.vocabulary.empty();
  WordCounts counts;
  PACELINE_ASSIGN(corpus->lines_, TextLines::Open(path, [&](std::string& line) -> Status {
                    if (count) CountWords(line, counts);
                    return {};
                  }));
  if (count) {
    corpus->vocabulary_ = Vocabulary(counts, options.min_count);
  } else {
    PACELINE_ASSIGN(corpus->vocabulary_, Vocabulary::Load(options.vocabulary));
  }
  return corpus;
}

std::string TextCorpus::Fingerprint() const {
  return fmt::format("text {}words:{}:{:016x}", lines_.fingerprint(), vocabulary_.size(),
                     vocabulary_.Hash());
}

Status TextCorpus::Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const {
  std::string line;
  PACELINE_TRY(lines_.Read(sentence, line));
  NormaliseLine(line);
  words.clear();
  ForEachWord(line, [&](std::string_view word) { words.push_back(vocabulary_.Find(word)); });
  return {};
}

}  // namespace paceline::data

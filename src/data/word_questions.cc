#include "data/word_questions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace paceline::data {

namespace {

std::vector<std::string_view> Fields(std::string_view line, std::string_view separators) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    const std::size_t begin = std::min(line.find_first_not_of(separators), line.size());
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(separators), line.size());
    if (end > 0) fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return fields;
}

// Shows each line to `visit`, whose errors get file and line.
Status ForEachLine(const std::filesystem::path& path,
                   const std::function<Status(std::uint64_t number, std::string& line)>& visit) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    return Status::Error(Code::kBadData, fmt::format("{}: cannot be read", path.string()));
  }
  std::string line;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    PACELINE_TRY(visit(number, line).Wrap(fmt::format("{}: line {}", path.string(), number)));
  }
  if (!file.bad()) return {};
  return Status::Error(Code::kBadData, fmt::format("{}: cannot be read", path.string()));
}

std::int32_t IdOf(std::string_view word, const Vocabulary& vocabulary) {
  std::string lower(word);
  NormaliseLine(lower);
  return lower.empty() ? Vocabulary::kUnknown : vocabulary.Find(lower);
}

std::optional<float> NumberOf(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<WordQuestions<AnalogyQuestion>> ReadAnalogies(const std::filesystem::path& path,
                                                     const Vocabulary& vocabulary) {
  WordQuestions<AnalogyQuestion> read;
  PACELINE_TRY(ForEachLine(path, [&](std::uint64_t /*number*/, std::string& line) -> Status {
    const auto words = Fields(line, " \t\r");
    if (words.empty() || words[0].starts_with(':')) return {};
    if (words.size() != 4) return Status::Error(Code::kBadData, "not four words");
    std::array<std::int32_t, 4> ids{};
    std::ranges::transform(words, ids.begin(),
                           [&](std::string_view word) { return IdOf(word, vocabulary); });
    if (std::ranges::all_of(ids, [](std::int32_t id) {
          return id != Vocabulary::kUnknown && id < kQuestionWords;
        })) {
      read.known.push_back({ids[0], ids[1], ids[2], ids[3]});
    } else {
      ++read.left_out;
    }
    return {};
  }));
  return read;
}

Result<WordQuestions<SimilarityPair>> ReadSimilarities(const std::filesystem::path& path,
                                                       const Vocabulary& vocabulary) {
  WordQuestions<SimilarityPair> read;
  PACELINE_TRY(ForEachLine(path, [&](std::uint64_t number, std::string& line) -> Status {
    const auto fields = Fields(line, " \t,\r");
    if (fields.empty() || fields[0].starts_with('#')) return {};
    const auto similarity = fields.size() == 3 ? NumberOf(fields[2]) : std::nullopt;
    if (!similarity && number == 1) return {};  // names of the columns
    if (!similarity) return Status::Error(Code::kBadData, "not two words and a number");
    const std::int32_t first = IdOf(fields[0], vocabulary), second = IdOf(fields[1], vocabulary);
    if (first == Vocabulary::kUnknown || second == Vocabulary::kUnknown) {
      ++read.left_out;
    } else {
      read.known.push_back({first, second, *similarity});
    }
    return {};
  }));
  return read;
}

}  // namespace paceline::data

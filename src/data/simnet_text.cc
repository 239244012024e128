#include "data/simnet_text.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace paceline::data {

namespace {

Status ParseIds(std::string_view text, std::uint64_t dictionary, std::vector<std::int64_t>& ids) {
  ids.clear();
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (;;) {
    std::uint64_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc{} || (after != end && *after != ' ')) {
      return Status::Error(Code::kBadData, "not a list of ids");
    }
    if (id >= dictionary) {
      return Status::Error(Code::kBadData,
                           fmt::format("id {} of a dictionary of {}", id, dictionary));
    }
    ids.push_back(static_cast<std::int64_t>(id));
    if (after == end) return {};
    at = after + 1;
  }
}

}  // namespace

Status ParseSimnetLine(std::string_view line, std::uint64_t dictionary, SimnetSample& sample) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (std::ranges::count(line, '\t') != 2) {
    return Status::Error(Code::kBadData, "not three lists of ids separated by tabs");
  }
  for (auto* ids : {&sample.query, &sample.positive, &sample.negative}) {
    const std::size_t end = std::min(line.find('\t'), line.size());
    PACELINE_TRY(ParseIds(line.substr(0, end), dictionary, *ids));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return {};
}

Result<std::unique_ptr<SimnetText>> SimnetText::Open(const std::filesystem::path& path,
                                                     std::uint64_t dictionary) {
  std::unique_ptr<SimnetText> text(new SimnetText(dictionary));
  SimnetSample sample;
  PACELINE_ASSIGN(text->lines_, TextLines::Open(path, [&](std::string& line) {
                    return ParseSimnetLine(line, dictionary, sample);
                  }));
  return text;
}

Status SimnetText::Read(std::uint64_t index, SimnetSample& sample) const {
  std::string line;
  PACELINE_TRY(lines_.Read(index, line));
  return ParseSimnetLine(line, dictionary_, sample).Wrap(lines_.Describe(index));
}

std::string SimnetText::Fingerprint() const {
  return fmt::format("simnet {}dictionary:{}", lines_.fingerprint(), dictionary_);
}

}  // namespace paceline::data

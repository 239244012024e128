#include "job/line_splitter.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace paceline::job {

namespace {

constexpr std::size_t kMaxErrorBytes = 500;

bool ContainsIgnoringCase(std::string_view text, std::string_view lower) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
  };
  return std::search(text.begin(), text.end(), lower.begin(), lower.end(), same) != text.end();
}

// "E20261115 21:40:00.123456 ...": an error in our log's format.
bool IsErrorOfLog(std::string_view line) {
  return line.size() > 9 && line[0] == 'E' &&
         std::all_of(line.begin() + 1, line.begin() + 9,
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool SpeaksOfError(std::string_view line) {
  return IsErrorOfLog(line) || ContainsIgnoringCase(line, "error") ||
         ContainsIgnoringCase(line, "check failed") ||
         ContainsIgnoringCase(line, "terminate called");
}

std::string Shown(std::string_view line) {
  std::string text(line.substr(0, kMaxErrorBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace

std::vector<std::string> LineSplitter::Feed(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kMaxLineBytes - pending_.size();
    const std::string_view part = bytes.substr(0, std::min(end, room));
    pending_ += part;
    bytes.remove_prefix(part.size());
    const bool complete = !bytes.empty() && bytes.front() == '\n';
    if (complete) bytes.remove_prefix(1);
    if (!complete && pending_.size() < kMaxLineBytes) break;
    if (complete && pending_.ends_with('\r')) pending_.pop_back();
    lines.push_back(std::exchange(pending_, {}));
  }
  return lines;
}

std::optional<std::string> LineSplitter::Finish() {
  if (pending_.empty()) return std::nullopt;
  return std::exchange(pending_, {});
}

std::string PrefixLine(std::string_view label, std::string_view line) {
  std::string text;
  text.reserve(label.size() + line.size() + 4);
  if (!label.empty()) text.append("[").append(label).append("] ");
  return text.append(line).append("\n");
}

void LastError::Observe(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  (SpeaksOfError(line) ? error_ : last_) = Shown(line);
}

}  // namespace paceline::job

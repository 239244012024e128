#include "job/slurm_list.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "job/endpoint.h"

namespace paceline::job {

namespace {

constexpr std::size_t kMaxDigits = 9;        // a number of a host; fits 32 bits
constexpr std::size_t kMaxShownOfList = 80;  // of a wrong list in a message

Status WrongList(std::string_view list, std::string_view why) {
  const bool cut = list.size() > kMaxShownOfList;
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("list '{}{}': {}", list.substr(0, kMaxShownOfList), cut ? "..." : "", why));
}

std::optional<std::uint64_t> Number(std::string_view digits) {
  std::uint64_t value = 0;
  if (digits.empty() || digits.size() > kMaxDigits) return std::nullopt;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return value;
}

// Takes the text up to `separator` off the front; the separator goes as well.
std::string_view TakeUntil(std::string_view& rest, char separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

// "10,20,025-037" to "10", "20", "025", ..., "037".
Result<std::vector<std::string>> ExpandRanges(std::string_view list, std::string_view ranges) {
  std::vector<std::string> numbers;
  if (ranges.empty() || ranges.back() == ',') return WrongList(list, "empty range in brackets");
  while (!ranges.empty()) {
    std::string_view last = TakeUntil(ranges, ',');
    const bool is_range = last.find('-') != std::string_view::npos;
    const std::string_view first = is_range ? TakeUntil(last, '-') : last;
    const auto from = Number(first), to = Number(last);
    if (!from || !to) return WrongList(list, "brackets hold numbers of up to 9 digits and ranges");
    if (*from > *to) return WrongList(list, fmt::format("range {}-{} runs backwards", first, last));
    if (*to - *from >= kMaxHosts - numbers.size()) return WrongList(list, "more than 65536 hosts");
    for (std::uint64_t n = *from; n <= *to; ++n) {
      numbers.push_back(fmt::format("{:0{}}", n, first.size()));
    }
  }
  return numbers;
}

// Every prefix with every number behind it.
Result<std::vector<std::string>> Cross(std::string_view list,
                                       const std::vector<std::string>& prefixes,
                                       const std::vector<std::string>& numbers) {
  if (prefixes.size() * numbers.size() > kMaxHosts) return WrongList(list, "more than 65536 hosts");
  std::vector<std::string> names;
  names.reserve(prefixes.size() * numbers.size());
  for (const std::string& prefix : prefixes) {
    if (prefix.size() + kMaxDigits > kMaxHostBytes) return WrongList(list, "a name is too long");
    for (const std::string& number : numbers) names.push_back(prefix + number);
  }
  return names;
}

// One name, which may have brackets.
Result<std::vector<std::string>> ExpandName(std::string_view list, std::string_view name) {
  std::vector<std::string> names{""};
  while (!name.empty()) {
    const std::size_t open = name.find('[');
    const std::string_view plain = name.substr(0, open);
    if (plain.size() > kMaxHostBytes - names.back().size()) {
      return WrongList(list, "a name is too long");
    }
    for (std::string& each : names) each += plain;
    if (open == std::string_view::npos) break;
    const std::size_t close = name.find(']', open);
    if (close == std::string_view::npos) return WrongList(list, "'[' without ']'");
    PACELINE_ASSIGN(const auto numbers,
                    ExpandRanges(list, name.substr(open + 1, close - open - 1)));
    PACELINE_ASSIGN(names, Cross(list, names, numbers));
    name = name.substr(close + 1);
  }
  for (const std::string& each : names) {
    if (!IsHostName(each)) return WrongList(list, fmt::format("'{}' is no host name", each));
  }
  return names;
}

// Up to the next comma outside of brackets.
std::string_view TakeName(std::string_view& rest) {
  std::size_t end = 0;
  for (bool inside = false; end < rest.size() && (inside || rest[end] != ','); ++end) {
    if (rest[end] == '[') inside = true;
    if (rest[end] == ']') inside = false;
  }
  const std::string_view name = rest.substr(0, end);
  rest = rest.substr(end);
  return name;
}

}  // namespace

Result<std::vector<std::string>> ExpandNodeList(std::string_view text) {
  std::vector<std::string> hosts;
  std::string_view rest = text;
  for (;;) {
    const std::string_view name = TakeName(rest);
    PACELINE_ASSIGN(const auto names, ExpandName(text, name));
    if (names.size() > kMaxHosts - hosts.size()) return WrongList(text, "more than 65536 hosts");
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (rest.empty()) return hosts;
    rest.remove_prefix(1);  // the comma
  }
}

Result<std::vector<std::uint64_t>> ExpandTaskList(std::string_view text) {
  std::vector<std::uint64_t> tasks;
  if (text.empty() || text.back() == ',') return WrongList(text, "a number is missing");
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view part = TakeUntil(rest, ',');
    std::uint64_t repeat = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      const std::string_view times = part.substr(open + 2);
      const auto number = Number(times.substr(0, times.find(')')));
      if (!number || *number == 0 || times.find(')') + 1 != times.size()) {
        return WrongList(text, fmt::format("'{}' is not like 2(x3)", part));
      }
      repeat = *number;
      part = part.substr(0, open);
    }
    const auto count = Number(part);
    if (!count || *count == 0 || *count > kMaxTasksPerHost) {
      return WrongList(text, fmt::format("'{}' is no number of tasks from 1 to 65536", part));
    }
    if (repeat > kMaxHosts - tasks.size()) return WrongList(text, "more than 65536 hosts");
    tasks.insert(tasks.end(), static_cast<std::size_t>(repeat), *count);
  }
  return tasks;
}

}  // namespace paceline::job

#include "base/fingerprint.h"

#include <sstream>

#include <fmt/format.h>

namespace paceline {

namespace {

constexpr char kBetweenFields = ';';

std::map<std::string, std::string> FieldsOf(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::istringstream in(text);
  for (std::string field; std::getline(in, field, kBetweenFields);) {
    const std::size_t equals = field.find('=');
    fields[field.substr(0, equals)] = equals == std::string::npos ? "" : field.substr(equals + 1);
  }
  return fields;
}

}  // namespace

std::string MakeFingerprint(const std::map<std::string, std::string>& fields) {
  std::string text;
  for (const auto& [key, value] : fields) {
    if (!text.empty()) text += kBetweenFields;
    text += key + "=" + value;
  }
  return text;
}

std::string FingerprintDifference(const std::string& ours, const std::string& theirs) {
  std::map<std::string, std::string> mine = FieldsOf(ours);
  const std::map<std::string, std::string> other = FieldsOf(theirs);
  for (const auto& [key, value] : other) mine.try_emplace(key, "(none)");
  std::string text;
  for (const auto& [key, value] : mine) {
    const auto found = other.find(key);
    const std::string there = found == other.end() ? "(none)" : found->second;
    if (value == there) continue;
    text += fmt::format("{}{}: {} / {}", text.empty() ? "" : "; ", key, value, there);
  }
  // A value with the separator in it can hide what differs.
  return text.empty() && ours != theirs ? fmt::format("{} / {}", ours, theirs) : text;
}

}  // namespace paceline

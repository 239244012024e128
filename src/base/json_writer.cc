#include "base/json_writer.h"

#include <cmath>

#include <fmt/format.h>

namespace paceline {

namespace {

// Length of the valid UTF-8 sequence that starts at text[at], or 0. Overlong forms and surrogates
// are left to the reader: they are rare, and readers replace them.
std::size_t Utf8Length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80                            ? 1
                             : (first >> 5) == 0x6 && first >= 0xC2  ? 2
                             : (first >> 4) == 0xE                   ? 3
                             : (first >> 3) == 0x1E && first <= 0xF4 ? 4
                                                                     : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) >> 6) != 0x2) return 0;
  }
  return length;
}

}  // namespace

std::string JsonQuote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = Utf8Length(text, i);
    const char c = text[i];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out + "\"";
}

JsonObject& JsonObject::AddRaw(std::string_view key, std::string_view json) {
  if (!body_.empty()) body_ += ", ";
  body_.append(JsonQuote(key)).append(": ").append(json);
  return *this;
}

JsonObject& JsonObject::Add(std::string_view key, std::string_view value) {
  return AddRaw(key, JsonQuote(value));
}

JsonObject& JsonObject::Add(std::string_view key, double value) {
  return AddRaw(key, std::isfinite(value) ? fmt::format("{}", value) : "null");
}

JsonObject& JsonObject::Add(std::string_view key, bool value) {
  return AddRaw(key, value ? "true" : "false");
}

JsonObject& JsonObject::Add(std::string_view key, const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + JsonQuote(value);
  return AddRaw(key, "[" + list + "]");
}

JsonObject& JsonObject::Add(std::string_view key, const std::vector<JsonObject>& values) {
  std::string list;
  for (const JsonObject& value : values) list += (list.empty() ? "" : ", ") + value.Text();
  return AddRaw(key, "[" + list + "]");
}

}  // namespace paceline

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Quotes and escapes a text for JSON. Bytes that are not UTF-8 become U+FFFD, so that the output
// is always valid JSON.
std::string JsonQuote(std::string_view text);

// Builds one JSON object in the order of the calls. Numbers that are not finite become null, since
// JSON has no NaN.
class JsonObject {
 public:
  JsonObject& Add(std::string_view key, std::string_view value);
  JsonObject& Add(std::string_view key, const char* value) {
    return Add(key, std::string_view(value));
  }
  JsonObject& Add(std::string_view key, double value);
  JsonObject& Add(std::string_view key, bool value);
  template <std::integral T>
  JsonObject& Add(std::string_view key, T value) {
    return AddRaw(key, std::to_string(value));
  }
  JsonObject& Add(std::string_view key, const JsonObject& value) {
    return AddRaw(key, value.Text());
  }
  JsonObject& Add(std::string_view key, const std::vector<std::string>& values);
  JsonObject& Add(std::string_view key, const std::vector<JsonObject>& values);

  // `json` is already JSON text.
  JsonObject& AddRaw(std::string_view key, std::string_view json);

  std::string Text() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

}  // namespace paceline

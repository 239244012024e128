#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::bench {

// Reads a JSON object field by field without exceptions. The first missing or wrongly typed field
// is remembered for the whole document and later reads return zeros, so a caller reads everything
// and checks status() once. Thread-compatible; copies share the document.
class JsonReader {
 public:
  // kProtocol when the text is not one JSON object.
  static Result<JsonReader> Parse(std::string_view text);

  double Number(const char* name);                         // finite
  std::optional<double> OptionalNumber(const char* name);  // absent or null: none
  std::int64_t Integer(const char* name);
  bool Flag(const char* name);
  std::string Text(const char* name);
  std::vector<double> Numbers(const char* name);
  std::vector<double> OptionalNumbers(const char* name);  // absent: none
  std::vector<std::int64_t> Integers(const char* name);
  std::vector<std::string> Texts(const char* name);
  JsonReader Object(const char* name);
  std::vector<JsonReader> Objects(const char* name);

  Status status() const;

 private:
  struct Document;
  JsonReader(std::shared_ptr<Document> document, const void* node, std::string path)
      : document_(std::move(document)), node_(node), path_(std::move(path)) {}
  void Fail(const char* name, const char* expected) const;

  std::shared_ptr<Document> document_;
  const void* node_;  // a JSON value inside document_; null below a field that was missing
  std::string path_;  // "config." for messages
};

}  // namespace paceline::bench

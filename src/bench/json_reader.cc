#include "bench/json_reader.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline::bench {

using SortedJson = nlohmann::json;

struct JsonReader::Document {
  SortedJson root;
  Status error;
};

namespace {

const SortedJson* Find(const void* node, const char* name) {
  const SortedJson* object = static_cast<const SortedJson*>(node);
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(name);
  return found == object->end() ? nullptr : &*found;
}

bool IsFinite(const SortedJson& value) {
  return value.is_number() && std::isfinite(value.get<double>());
}

// An unsigned number above the signed range would turn negative.
bool IsInteger(const SortedJson& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
}

}  // namespace

Result<JsonReader> JsonReader::Parse(std::string_view text) {
  auto document = std::make_shared<Document>();
  document->root = SortedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document->root.is_object()) {
    return Status::Error(Code::kProtocol,
                         fmt::format("not a JSON object: \"{}\"", text.substr(0, 120)));
  }
  const void* root = &document->root;
  return JsonReader(std::move(document), root, "");
}

void JsonReader::Fail(const char* name, const char* expected) const {
  if (!document_->error.ok()) return;
  document_->error = Status::Error(
      Code::kProtocol, fmt::format("field \"{}{}\" is missing or not {}", path_, name, expected));
}

Status JsonReader::status() const { return document_->error; }

double JsonReader::Number(const char* name) {
  const SortedJson* value = Find(node_, name);
  if (value != nullptr && IsFinite(*value)) return value->get<double>();
  Fail(name, "a finite number");
  return 0;
}

std::optional<double> JsonReader::OptionalNumber(const char* name) {
  const SortedJson* value = Find(node_, name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return Number(name);
}

std::int64_t JsonReader::Integer(const char* name) {
  const SortedJson* value = Find(node_, name);
  if (value != nullptr && IsInteger(*value)) return value->get<std::int64_t>();
  Fail(name, "an integer");
  return 0;
}

bool JsonReader::Flag(const char* name) {
  const SortedJson* value = Find(node_, name);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  Fail(name, "true or false");
  return false;
}

std::string JsonReader::Text(const char* name) {
  const SortedJson* value = Find(node_, name);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  Fail(name, "a text");
  return {};
}

std::vector<double> JsonReader::Numbers(const char* name) {
  std::vector<double> numbers;
  const SortedJson* value = Find(node_, name);
  if (value == nullptr || !value->is_array()) {
    Fail(name, "a list");
    return numbers;
  }
  for (const SortedJson& element : *value) {
    if (!IsFinite(element)) Fail(name, "a list of finite numbers");
    numbers.push_back(IsFinite(element) ? element.get<double>() : 0);
  }
  return numbers;
}

std::vector<double> JsonReader::OptionalNumbers(const char* name) {
  return Find(node_, name) == nullptr ? std::vector<double>() : Numbers(name);
}

std::vector<std::int64_t> JsonReader::Integers(const char* name) {
  std::vector<std::int64_t> integers;
  const SortedJson* value = Find(node_, name);
  if (value == nullptr || !value->is_array()) {
    Fail(name, "a list");
    return integers;
  }
  for (const SortedJson& element : *value) {
    if (!IsInteger(element)) Fail(name, "a list of integers");
    integers.push_back(IsInteger(element) ? element.get<std::int64_t>() : 0);
  }
  return integers;
}

std::vector<std::string> JsonReader::Texts(const char* name) {
  std::vector<std::string> texts;
  const SortedJson* value = Find(node_, name);
  if (value == nullptr || !value->is_array()) {
    Fail(name, "a list");
    return texts;
  }
  for (const SortedJson& element : *value) {
    if (!element.is_string()) Fail(name, "a list of texts");
    texts.push_back(element.is_string() ? element.get<std::string>() : "");
  }
  return texts;
}

JsonReader JsonReader::Object(const char* name) {
  const SortedJson* value = Find(node_, name);
  if (value == nullptr || !value->is_object()) {
    Fail(name, "an object");
    value = nullptr;
  }
  return JsonReader(document_, value, fmt::format("{}{}.", path_, name));
}

std::vector<JsonReader> JsonReader::Objects(const char* name) {
  std::vector<JsonReader> objects;
  const SortedJson* value = Find(node_, name);
  if (value == nullptr || !value->is_array()) {
    Fail(name, "a list");
    return objects;
  }
  for (const SortedJson& element : *value) {
    if (!element.is_object()) Fail(name, "a list of objects");
    objects.push_back(
        JsonReader(document_, &element, fmt::format("{}{}[{}].", path_, name, objects.size())));
  }
  return objects;
}

}  // namespace paceline::bench

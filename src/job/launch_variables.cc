#include "job/launch_variables.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "job/endpoint.h"

namespace paceline::job {

namespace {

constexpr std::size_t kMaxShownOfValue = 120;  // of a value in a message

}  // namespace

std::optional<std::string> LaunchVariables::Text(const char* name) const {
  const char* value = getenv_(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

const char* LaunchVariables::FirstSet(std::initializer_list<const char*> names) const {
  const auto* found = std::ranges::find_if(names, [this](const char* name) { return Has(name); });
  return found == names.end() ? *names.begin() : *found;
}

bool LaunchVariables::IsTrue(const char* name) const {
  const auto text = Text(name);
  return text && (*text == "True" || *text == "true" || *text == "1");
}

Result<std::optional<std::uint64_t>> LaunchVariables::Number(const char* name) const {
  const auto text = Text(name);
  if (!text) return std::optional<std::uint64_t>();
  std::uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return Wrong(name, "not a whole number");
  return std::optional(value);
}

Result<std::uint64_t> LaunchVariables::RequiredNumber(const char* name, const char* because) const {
  PACELINE_ASSIGN(const auto value, Number(name));
  if (!value) return Missing(name, because);
  return *value;
}

Result<std::optional<std::uint16_t>> LaunchVariables::Port(const char* name) const {
  PACELINE_ASSIGN(const auto value, Number(name));
  if (!value) return std::optional<std::uint16_t>();
  if (*value == 0 || *value > 65535) return Wrong(name, "not a port from 1 to 65535");
  return std::optional(static_cast<std::uint16_t>(*value));
}

Result<std::optional<std::string>> LaunchVariables::Host(const char* name) const {
  auto text = Text(name);
  if (text && !IsHost(*text)) return Wrong(name, "not a host name or an address");
  return text;
}

Status LaunchVariables::Wrong(const char* name, std::string_view why) const {
  const std::string value = Text(name).value_or("");
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("{}={}{}: {}", name, value.substr(0, kMaxShownOfValue),
                                   value.size() > kMaxShownOfValue ? "..." : "", why));
}

Status LaunchVariables::Missing(const char* name, const char* because) {
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("{} is set but {} is not", because, name));
}

}  // namespace paceline::job

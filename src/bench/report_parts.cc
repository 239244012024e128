#include "bench/report_parts.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

namespace paceline::bench {

std::string FormatTime(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  char text[32] = "";
  if (::gmtime_r(&time, &utc) == nullptr) return "unknown";
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

std::string ModelTitle(std::string model) {
  std::transform(model.begin(), model.end(), model.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return model;
}

std::string OrUnknown(const std::string& text) { return text.empty() ? "unknown" : text; }

Facts SourceFacts(const Provenance& source, const job::Machine& machine) {
  return {{"Started", FormatTime(source.started_unix)},
          {"Commit", OrUnknown(source.commit) + (source.dirty ? " with uncommitted changes" : "")},
          {"Processor", fmt::format("{}, {} of {} cores usable", OrUnknown(machine.cpu_model),
                                    machine.cores, machine.cores_online)},
          {"Memory", fmt::format("{:.1f} GB", static_cast<double>(machine.memory_bytes) / 1e9)},
          {"System", fmt::format("{}, {}", OrUnknown(machine.os), OrUnknown(machine.kernel))},
          {"Governor", OrUnknown(machine.governor)},
          {"Load before", fmt::format("{:.2f}", machine.load_average)}};
}

std::pair<std::string, std::string> SystemFact(const SystemInfo& system) {
  if (!system.unavailable.empty()) return {system.name, "not available: " + system.unavailable};
  return {system.name, fmt::format("{}; {} parameters in {} tensors", OrUnknown(system.version),
                                   system.params, system.tensors)};
}

PageSection NoticeSection(const std::string& failure, std::vector<std::string> warnings,
                          const std::vector<SystemInfo>& systems) {
  std::string html;
  if (!failure.empty()) html += NoticeHtml(Tone::kError, "This result is partial", {failure});
  for (const SystemInfo& system : systems) {
    if (!system.unavailable.empty()) warnings.push_back("Not available: " + system.unavailable);
  }
  if (!warnings.empty()) html += NoticeHtml(Tone::kWarning, "Read with care", warnings);
  return {"", html};
}

}  // namespace paceline::bench

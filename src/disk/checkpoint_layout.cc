#include "disk/checkpoint_layout.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace paceline::disk {

namespace {

constexpr std::string_view kPrefix = "gen-";
constexpr std::string_view kBroken = ".broken";

}  // namespace

std::string GenerationName(Generation number) {
  return fmt::format("{}{:016}", kPrefix, number.value());
}

std::optional<GenerationEntry> ParseGenerationName(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = name.substr(kPrefix.size());
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  // The largest number has no successor.
  if (parsed.ec != std::errc() || number == std::numeric_limits<std::uint64_t>::max() ||
      !name.starts_with(GenerationName(Generation(number)))) {
    return std::nullopt;
  }
  const std::string_view suffix = name.substr(GenerationName(Generation(number)).size());
  if (!suffix.empty() && !suffix.starts_with(kBroken)) return std::nullopt;
  return GenerationEntry{std::string(name), Generation(number), !suffix.empty()};
}

RootLayout ReadLayout(std::span<const DirEntry> entries) {
  RootLayout layout;
  for (const DirEntry& entry : entries) {
    if (entry.name.starts_with(kTemporaryPrefix)) layout.temporaries.push_back(entry.name);
    if (entry.name == kBestName) layout.has_best = true;
    if (auto generation = ParseGenerationName(entry.name)) {
      generation->is_directory = entry.is_directory;
      layout.generations.push_back(*std::move(generation));
    }
  }
  std::stable_sort(layout.generations.begin(), layout.generations.end(),
                   [](const auto& a, const auto& b) { return a.number > b.number; });
  return layout;
}

Generation RootLayout::NextGeneration() const {
  return generations.empty() ? Generation(1) : generations.front().number.Next();
}

std::string RootLayout::BrokenName(Generation number) const {
  const std::string first = GenerationName(number) + std::string(kBroken);
  std::string name = first;
  const auto taken = [&](const GenerationEntry& entry) { return entry.name == name; };
  for (int n = 2; std::any_of(generations.begin(), generations.end(), taken); ++n) {
    name = fmt::format("{}-{}", first, n);
  }
  return name;
}

}  // namespace paceline::disk

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "disk/file_system.h"

// The names inside a checkpoint root. Pure. docs/formats.md draws the tree.
namespace paceline::disk {

inline constexpr char kManifestName[] = "MANIFEST.json";
inline constexpr char kLatestName[] = "LATEST";
inline constexpr char kBestName[] = "BEST";
inline constexpr char kTemporaryPrefix[] = ".tmp-";

struct GenerationEntry {
  std::string name;
  Generation number;
  bool broken = false;  // set aside: "gen-...broken" or "gen-...broken-2"
  bool is_directory = false;
};

// "gen-0000000000000042".
std::string GenerationName(Generation number);

// Nothing for a name that no generation has.
std::optional<GenerationEntry> ParseGenerationName(std::string_view name);

struct RootLayout {
  std::vector<GenerationEntry> generations;  // newest first, broken ones included
  std::vector<std::string> temporaries;      // left behind by a save that did not end
  bool has_best = false;                     // a file that names the generation to keep

  // One more than any number ever used, so that a number never means two things.
  Generation NextGeneration() const;
  // ".broken" or the first ".broken-<n>" that is free.
  std::string BrokenName(Generation number) const;
};

RootLayout ReadLayout(std::span<const DirEntry> entries);

}  // namespace paceline::disk

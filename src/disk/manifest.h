#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

// MANIFEST.json, the last file written into a checkpoint and the proof that it is complete.
// docs/formats.md describes it field by field. Pure: bytes in, structs out.
namespace paceline::disk {

inline constexpr std::uint64_t kManifestSchema = 1;
inline constexpr std::uint64_t kMaxManifestBytes = 16 << 20;

// Keeps whole numbers whole.
using Number = std::variant<std::int64_t, double>;

// Where a run stands. `cluster_id` and `generation` belong to the store, which sets them on Save.
struct CheckpointMeta {
  std::string cluster_id;
  Generation generation;
  Step step;
  std::uint64_t epoch = 0;
  std::uint64_t sample_position = 0;  // samples used since the start, over all epochs
  std::uint64_t world_size = 0;
  std::uint64_t seed = 0;
  std::string optimizer;
  std::string model;
  std::string model_hash;
  std::map<std::string, std::string> config;
  std::map<std::string, Number> counters;

  friend bool operator==(const CheckpointMeta&, const CheckpointMeta&) = default;
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  CheckpointMeta meta;
  std::vector<ManifestFile> files;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// A name that stays inside its directory and does not hide: no '/', no leading '.', not
// MANIFEST.json, 1 to 200 bytes.
bool IsPlainFileName(std::string_view name);

// kInvalidArgument for text that is not UTF-8, numbers that JSON has not, and bad file names.
Result<std::string> EncodeManifest(const Manifest& manifest);

// kBadData with the reason; kMismatch for a manifest of a newer schema.
Result<Manifest> DecodeManifest(std::span<const std::byte> bytes);

// Puts a body into the envelope that carries its checksum. EncodeManifest does it; tests that
// need a well-sealed but wrong manifest call it themselves.
std::string SealManifest(std::string_view body);

}  // namespace paceline::disk

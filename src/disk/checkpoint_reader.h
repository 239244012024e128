#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "disk/checkpoint_writer.h"
#include "disk/file_system.h"
#include "disk/manifest.h"
#include "wire/safetensors.h"

namespace paceline::disk {

// A file of a checkpoint in memory, its checksum and its header verified.
struct LoadedFile {
  std::string name;
  std::vector<std::byte> bytes;
  wire::SafetensorsHeader header;

  TensorView View(const wire::TensorInfo& tensor) const;
};

// A whole checkpoint in memory. Immutable once loaded; views live as long as it does.
struct LoadedCheckpoint {
  CheckpointMeta meta;
  std::vector<LoadedFile> files;
  std::vector<std::string> warnings;  // what was skipped on the way here, for people

  const LoadedFile* FindFile(std::string_view file) const;
  std::optional<TensorView> Find(std::string_view file, std::string_view tensor) const;
};

// The manifest of the generation directory `dir`. kBadData or kNotFound: the generation is not
// usable; kMismatch: written by a newer program; kDisk: it could not be read.
Result<Manifest> ReadManifest(FileSystem& fs, const std::string& dir);

// Reads a file into memory and compares size and checksum. Codes as above.
Result<LoadedFile> LoadFile(FileSystem& fs, const std::string& dir, const ManifestFile& entry);

// Reads a safetensors file that anybody may have written; its name is the path. kNotFound, kDisk,
// or kBadData with the offset.
Result<LoadedFile> LoadTensors(FileSystem& fs, const std::string& path);

// The same comparison without keeping the bytes.
Status VerifyFile(FileSystem& fs, const std::string& dir, const ManifestFile& entry);

}  // namespace paceline::disk

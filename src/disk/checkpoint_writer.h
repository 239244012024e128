#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"
#include "disk/manifest.h"
#include "wire/safetensors.h"

namespace paceline::disk {

// A tensor that somebody else owns, little-endian and in C order. Not aligned for its type when
// it comes out of a file: copy it out.
struct TensorView {
  std::string name;
  wire::DType dtype = wire::DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// One file of a checkpoint, e.g. one shard. The tensors stay where they are until Save returns.
struct CheckpointFile {
  std::string name;  // plain, e.g. "model.safetensors"
  std::vector<TensorView> tensors;
};

// Writes a new durable safetensors file without a second copy of the data. kDisk when writing
// fails, kInvalidArgument when a tensor's bytes do not fit its shape.
Result<ManifestFile> WriteTensors(FileSystem& fs, const std::string& dir,
                                  const CheckpointFile& file);

// Writes a new durable file.
Status WriteText(FileSystem& fs, const std::string& path, const std::string& text);

}  // namespace paceline::disk

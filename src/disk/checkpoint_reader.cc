#include "disk/checkpoint_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "disk/checkpoint_layout.h"
#include "wire/crc32c.h"

namespace paceline::disk {

namespace {

constexpr std::size_t kVerifyChunk = 4 << 20;  // large enough that opening again costs nothing

Status CheckSize(const std::string& path, std::uint64_t expected, std::uint64_t actual) {
  if (actual == expected) return {};
  return Status::Error(Code::kBadData,
                       fmt::format("{} has {} bytes, expected {}", path, actual, expected));
}

Status CheckCrc(const std::string& path, std::uint32_t expected, std::uint32_t actual) {
  if (actual == expected) return {};
  return Status::Error(Code::kBadData, fmt::format("{} has CRC-32C {:08x}, expected {:08x}", path,
                                                   actual, expected));
}

}  // namespace

TensorView LoadedFile::View(const wire::TensorInfo& tensor) const {
  return {tensor.name, tensor.dtype, tensor.shape,
          std::span(bytes).subspan(header.data_start + tensor.begin, tensor.end - tensor.begin)};
}

const LoadedFile* LoadedCheckpoint::FindFile(std::string_view file) const {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const LoadedFile& each) { return each.name == file; });
  return found == files.end() ? nullptr : &*found;
}

std::optional<TensorView> LoadedCheckpoint::Find(std::string_view file,
                                                 std::string_view tensor) const {
  const LoadedFile* loaded = FindFile(file);
  if (loaded == nullptr) return std::nullopt;
  for (const wire::TensorInfo& info : loaded->header.tensors) {
    if (info.name == tensor) return loaded->View(info);
  }
  return std::nullopt;
}

Result<Manifest> ReadManifest(FileSystem& fs, const std::string& dir) {
  const std::string path = dir + "/" + kManifestName;
  PACELINE_ASSIGN(const auto bytes, ReadWhole(fs, path, kMaxManifestBytes));
  auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return manifest.status().Wrap(path);
  return manifest;
}

Result<LoadedFile> LoadFile(FileSystem& fs, const std::string& dir, const ManifestFile& entry) {
  const std::string path = dir + "/" + entry.name;
  // The real size decides what is allocated, never the manifest's.
  PACELINE_ASSIGN(const std::uint64_t size, fs.Size(path));
  PACELINE_TRY(CheckSize(path, entry.bytes, size));
  LoadedFile file{.name = entry.name, .bytes = std::vector<std::byte>(size)};
  PACELINE_ASSIGN(const std::size_t got, fs.ReadAt(path, 0, file.bytes));
  PACELINE_TRY(CheckSize(path, entry.bytes, got));
  PACELINE_TRY(CheckCrc(path, entry.crc32c, wire::Crc32c(file.bytes)));
  auto header = wire::DecodeSafetensorsHeader(file.bytes, size);
  if (!header.ok()) return header.status().Wrap(path);
  file.header = std::move(header).value();
  return file;
}

Result<LoadedFile> LoadTensors(FileSystem& fs, const std::string& path) {
  PACELINE_ASSIGN(const std::uint64_t size, fs.Size(path));
  LoadedFile file{.name = path, .bytes = std::vector<std::byte>(size)};
  PACELINE_ASSIGN(const std::size_t got, fs.ReadAt(path, 0, file.bytes));
  PACELINE_TRY(CheckSize(path, size, got));
  auto header = wire::DecodeSafetensorsHeader(file.bytes, size);
  if (!header.ok()) return header.status().Wrap(path);
  file.header = std::move(header).value();
  return file;
}

Status VerifyFile(FileSystem& fs, const std::string& dir, const ManifestFile& entry) {
  const std::string path = dir + "/" + entry.name;
  PACELINE_ASSIGN(const std::uint64_t size, fs.Size(path));
  PACELINE_TRY(CheckSize(path, entry.bytes, size));
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kVerifyChunk, size));
  std::uint32_t crc = 0;
  for (std::uint64_t offset = 0; offset < size;) {
    PACELINE_ASSIGN(const std::size_t got, fs.ReadAt(path, offset, chunk));
    if (got == 0) return CheckSize(path, entry.bytes, offset);
    crc = wire::Crc32c(std::span(chunk).first(got), crc);
    offset += got;
  }
  return CheckCrc(path, entry.crc32c, crc);
}

}  // namespace paceline::disk

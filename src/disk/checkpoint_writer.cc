#include "disk/checkpoint_writer.h"

#include <fmt/format.h>

#include "wire/crc32c.h"

namespace paceline::disk {

namespace {

Result<std::string> EncodeHeader(const CheckpointFile& file) {
  std::vector<wire::TensorInfo> infos;
  infos.reserve(file.tensors.size());
  for (const TensorView& tensor : file.tensors) {
    const auto bytes = wire::TensorBytes(tensor.dtype, tensor.shape);
    if (!bytes.ok() || *bytes != tensor.bytes.size()) {
      return Status::Error(Code::kInvalidArgument,
                           fmt::format("tensor \"{}\" has {} bytes, which is not its shape",
                                       tensor.name, tensor.bytes.size()));
    }
    infos.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  return wire::EncodeSafetensorsHeader(infos);
}

}  // namespace

Result<ManifestFile> WriteTensors(FileSystem& fs, const std::string& dir,
                                  const CheckpointFile& file) {
  PACELINE_ASSIGN(const std::string header, EncodeHeader(file));
  PACELINE_ASSIGN(const auto out, fs.Create(dir + "/" + file.name));
  ManifestFile entry{.name = file.name};
  const auto append = [&](std::span<const std::byte> bytes) {
    entry.bytes += bytes.size();
    entry.crc32c = wire::Crc32c(bytes, entry.crc32c);
    return out->Append(bytes);
  };
  PACELINE_TRY(append(std::as_bytes(std::span(header))));
  for (const TensorView& tensor : file.tensors) PACELINE_TRY(append(tensor.bytes));
  PACELINE_TRY(out->Sync());
  PACELINE_TRY(out->Close());
  return entry;
}

Status WriteText(FileSystem& fs, const std::string& path, const std::string& text) {
  PACELINE_ASSIGN(const auto out, fs.Create(path));
  PACELINE_TRY(out->Append(std::as_bytes(std::span(text))));
  PACELINE_TRY(out->Sync());
  return out->Close();
}

}  // namespace paceline::disk

#include "data/photos.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "data/input_file.h"

namespace paceline::data {

Result<std::unique_ptr<Photos>> Photos::Open(const ImageLocation& location,
                                             const std::filesystem::path& index_file,
                                             BadRecord policy) {
  PACELINE_ASSIGN(KeptIndex kept, LoadOrScan(location, index_file));
  std::unique_ptr<Photos> photos(new Photos());
  photos->root_ = location.root;
  photos->index_ = std::move(kept.index);
  photos->warnings_ = std::move(kept.warnings);
  const ImageIndex& index = photos->index_;
  if (index.bad_records > 0) {
    const std::string others =
        index.bad_records > 1 ? fmt::format("; {} more", index.bad_records - 1) : "";
    if (policy == BadRecord::kFail) {
      return Status::Error(Code::kBadData, index.first_bad + others);
    }
    photos->warnings_.push_back(
        fmt::format("{} bad records left out; the first: {}", index.bad_records, index.first_bad));
  }
  if (index.images.empty()) {
    return Status::Error(
        Code::kBadData,
        fmt::format("{}: no usable image", (location.root / location.paths.at(0)).string()));
  }
  photos->fingerprint_ = FingerprintOf(index);
  return photos;
}

std::string Photos::PathOf(const ImageIndex::Image& image) const {
  std::filesystem::path path = root_ / index_.containers[image.container].path;
  if (!index_.tar) path /= index_.NameOf(image);
  return path.string();
}

std::string Photos::Describe(std::uint64_t index) const {
  const ImageIndex::Image& image = index_.images[index];
  return fmt::format("{}: byte offset {}", PathOf(image), index_.tar ? image.place : 0);
}

std::uint64_t Photos::WithHighestLabel() const {
  const auto highest = std::ranges::max_element(index_.images, {}, &ImageIndex::Image::label);
  return static_cast<std::uint64_t>(highest - index_.images.begin());
}

Status Photos::Read(std::uint64_t index, std::vector<std::byte>& bytes, std::int64_t& label) const {
  if (index >= size()) {
    return Status::Error(Code::kInvalidArgument, fmt::format("sample {} of {}", index, size()));
  }
  const ImageIndex::Image& image = index_.images[index];
  label = image.label;
  PACELINE_ASSIGN(const InputFile file, InputFile::Open(PathOf(image)));
  const std::uint64_t expected =
      index_.tar ? index_.containers[image.container].bytes : image.bytes;
  if (file.bytes() != expected) {
    return Status::Error(Code::kBadData,
                         fmt::format("{}: {} bytes; it had {} when its index was made", file.path(),
                                     file.bytes(), expected));
  }
  bytes.resize(image.bytes);
  return file.ReadAt(index_.tar ? image.place : 0, bytes);
}

}  // namespace paceline::data

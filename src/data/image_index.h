#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// Where each encoded image of a set lies and what its label is: made once by looking through
// folders or tar files (image_scan.h), then read from a file. A plain value.
struct ImageIndex {
  // A folder of images, or a tar file.
  struct Container {
    std::string path;              // below the folder of the set
    std::uint64_t bytes = 0;       // of a tar file
    std::uint64_t changed_ns = 0;  // its time of change, to notice that the index is old
    friend bool operator==(const Container&, const Container&) = default;
  };
  struct Image {
    std::uint32_t container = 0;
    std::uint32_t label = 0;
    std::uint32_t bytes = 0;
    std::uint64_t place =
        0;  // in a tar file: byte offset; in a folder: where its name is in `names`
    friend bool operator==(const Image&, const Image&) = default;
  };

  bool tar = false;
  std::vector<std::string> classes;  // of folders: their names, sorted; else empty
  std::vector<Container> containers;
  std::vector<Image> images;
  std::string names;              // of folders: file names, each with a byte 0 behind it
  std::uint64_t bad_records = 0;  // left out
  std::string first_bad;          // what is wrong with the first of them, and where

  std::string_view NameOf(const Image& image) const { return names.data() + image.place; }
  friend bool operator==(const ImageIndex&, const ImageIndex&) = default;
};

inline constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 32;

// The format is in docs/formats.md. Decoding checks everything: containers, labels and names that
// it refers to are there. kBadData otherwise, kMismatch for another version.
std::vector<std::byte> EncodeImageIndex(const ImageIndex& index);
Result<ImageIndex> DecodeImageIndex(std::span<const std::byte> bytes);

// Equal texts mean equal names, sizes, places and labels of all images.
std::string FingerprintOf(const ImageIndex& index);

}  // namespace paceline::data

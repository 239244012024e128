#include "data/dataset.h"

#include <fmt/format.h>

namespace paceline::data {

std::string ImageShape::Text() const { return fmt::format("{}x{}x{}", channels, height, width); }

Status CheckRead(const Dataset& dataset, std::uint64_t index, std::size_t image_bytes) {
  if (index >= dataset.size()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("sample {} of {}", index, dataset.size()));
  }
  const std::size_t pixels = dataset.image_shape().pixels();
  if (image_bytes != pixels) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("a buffer of {} bytes for an image of {}", image_bytes, pixels));
  }
  return {};
}

}  // namespace paceline::data

#include "data/dataset.h"

#include <fmt/format.h>

namespace paceline::data {

Status CheckRead(const Dataset& dataset, std::uint64_t index, std::size_t image_bytes) {
  if (index >= dataset.size()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("sample {} of {}", index, dataset.size()));
  }
  if (image_bytes != kImagePixels) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("a buffer of {} bytes for an image of {}", image_bytes, kImagePixels));
  }
  return {};
}

}  // namespace paceline::data

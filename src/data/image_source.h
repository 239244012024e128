#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/augment.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/image_scan.h"

namespace paceline::data {

enum class PixelRange {
  kNormalized,  // mean 0 and deviation 1 over a data set of that kind
  kUnit,        // 0 .. 1
};

// What a model wants of images.
struct ImageRequest {
  ImageShape shape = kCifarShape;
  std::int64_t classes = 0;  // 0: it does not look at labels
  PixelRange range = PixelRange::kNormalized;
  Augment augment = Augment::kStandard;  // of training batches
  BadRecord policy = BadRecord::kFail;
};

struct ImageSources {
  std::unique_ptr<BatchSource> train;
  std::unique_ptr<BatchSource> held_out;
  std::vector<std::string> warnings;
};

// Images made by synthetic.h, of any shape and number of classes.
struct SyntheticSizes {
  std::uint64_t seed = 0;
  std::uint64_t train = 0;
  std::uint64_t held_out = 0;
};
ImageSources MakeSyntheticImages(const ImageRequest& request, const SyntheticSizes& sizes);

// Images of a folder, whose content says what they are; docs/data.md lists the kinds. `cache` is
// the folder that keeps indexes; empty: `.paceline` in the folder. kBadData when nothing known is
// there, or something is missing or bad; kInvalidArgument when it is not what the model wants.
Result<ImageSources> OpenImages(const ImageRequest& request, const std::filesystem::path& folder,
                                std::filesystem::path cache = {});

}  // namespace paceline::data

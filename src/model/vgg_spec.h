#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/catalog.h"

namespace paceline::model {

// VGG with batch normalisation and dropout after every convolution, as in the benchmark of
// PaddlePaddle Fluid (`vgg16_bn_drop`): each convolution is 3x3, pad 1, with bias, then batch norm,
// ReLU and dropout; each group ends in a 2x2 max pool; then dropout, fc, batch norm, ReLU, dropout,
// fc, and the classifier.
struct VggSpec {
  struct Conv {
    std::int64_t channels;
    float dropout;  // after it; 0 means no dropout layer
  };
  std::vector<std::vector<Conv>> groups;
  std::int64_t fully_connected = 512;
  float classifier_dropout = 0.5F;
  std::int64_t image_size = 32;
  std::int64_t classes = 10;
};

// "vgg16", or "vgg16-small": the same layers with an eighth of the channels, for tests.
Result<VggSpec> VggSpecByName(std::string_view name);

ModelCard MakeVggCard(std::string_view name);

}  // namespace paceline::model

// Convolutional models: counts of the published ones, and sizes that follow from layer to layer.
#include <gmock/gmock.h>

#include "model/catalog.h"
#include "model/cnn_cards.h"
#include "model/cnn_graphs.h"
#include "testing/status_matchers.h"

namespace paceline::model {
namespace {

using testing::StatusIs;

struct Published {
  const char* name;
  std::int64_t parameters, tensors;
};

TEST(CnnCards, HaveTheParametersOfTheirSources) {
  for (const Published& published : {Published{"resnet50", 23'555'082, 214},
                                     {"resnet50-imagenet", 25'557'032, 161},
                                     {"se-resnet50-imagenet", 28'088'024, 225},
                                     {"mobilenet-v2", 2'236'682, 158},
                                     {"vgg16-imagenet", 138'357'544, 32},
                                     {"image-compression", 11'238'723, 34}}) {
    const ModelCard& card = **FindModel(published.name);
    EXPECT_EQ(card.ParameterCount(), published.parameters) << published.name;
    EXPECT_EQ(card.TensorCount(), published.tensors) << published.name;
  }
}

// The published number of the ImageNet model less the last layer for 990 classes.
TEST(CnnCards, SeResNet50OfTenClassesDiffersInItsLastLayerOnly) {
  EXPECT_EQ((*FindModel("se-resnet50"))->ParameterCount(), 28'088'024 - 990 * 2049);
}

// Multiply-adds as published: 4.09 billion (torchvision), 15.47 billion (Simonyan's D).
TEST(CnnCards, CountTheirOperations) {
  EXPECT_EQ((*FindModel("resnet50-imagenet"))->forward_flops, 2 * 4'089'184'256);
  EXPECT_EQ((*FindModel("vgg16-imagenet"))->forward_flops, 2 * 15'470'264'320);
}

TEST(CnnCards, ModelsThatTakeMeansTakeImagesOfAnySize) {
  for (const char* name : {"resnet50", "resnet50-imagenet", "se-resnet50", "mobilenet-v2"}) {
    EXPECT_TRUE((*FindModel(name))->any_image_size) << name;
  }
  for (const char* name : {"vgg16-imagenet", "image-compression"}) {
    EXPECT_FALSE((*FindModel(name))->any_image_size) << name;
  }
}

TEST(CnnCards, NamesAreThoseOfTorchvision) {
  const auto has = [](const char* model, const char* tensor, std::vector<std::int64_t> shape) {
    for (const TensorSpec& spec : (*FindModel(model))->parameters) {
      if (spec.name == tensor) return spec.shape == shape;
    }
    return false;
  };
  EXPECT_TRUE(has("resnet50-imagenet", "layer1.0.downsample.0.weight", {256, 64, 1, 1}));
  EXPECT_TRUE(has("resnet50-imagenet", "layer4.2.bn3.bias", {2048}));
  EXPECT_TRUE(has("resnet50-imagenet", "fc.weight", {1000, 2048}));
  EXPECT_TRUE(has("mobilenet-v2", "features.2.conv.1.0.weight", {96, 1, 3, 3}));
  EXPECT_TRUE(has("mobilenet-v2", "features.18.0.weight", {1280, 320, 1, 1}));
  EXPECT_TRUE(has("mobilenet-v2", "classifier.1.bias", {10}));
  EXPECT_TRUE(has("vgg16-imagenet", "features.28.weight", {512, 512, 3, 3}));
  EXPECT_TRUE(has("vgg16-imagenet", "classifier.0.weight", {4096, 25'088}));
}

TEST(CnnGraph, CompressionGivesBackAnImageOfItsOwnSize) {
  for (const char* name : {"image-compression", "image-compression-small"}) {
    const LayerGraph graph = CnnGraph(name).value();
    EXPECT_EQ(graph.layers.back().out, graph.input) << name;
  }
}

TEST(CnnGraph, LayersTakeValuesOfTheirSizeMadeBefore) {
  for (const ModelCard& card : CnnCards()) {
    const LayerGraph graph = CnnGraph(card.name).value();
    for (std::size_t i = 0; i < graph.layers.size(); ++i) {
      const Layer& layer = graph.layers[i];
      ASSERT_LE(layer.input, i);
      ASSERT_LE(layer.addend, i);
      EXPECT_EQ(graph.SizeOf(layer.input), layer.in) << card.name << " " << layer.name;
      if (layer.addend == 0) continue;
      EXPECT_EQ(graph.SizeOf(layer.addend), layer.out) << layer.name;
    }
  }
}

TEST(CnnGraph, OtherModelsHaveNone) {
  EXPECT_THAT(CnnGraph("vgg16"), StatusIs(Code::kNotFound, ::testing::HasSubstr("vgg16")));
}

}  // namespace
}  // namespace paceline::model

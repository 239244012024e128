// The torch module against its model card, and the fused activation against its definition.
#include "train/vgg.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "train/dropout.h"
#include "train/image_model.h"
#include "train/parameters.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(Vgg, HasExactlyTheTensorsOfItsCard) {
  for (const model::ModelCard& card : model::Catalog()) {
    const auto model = BuildImageModel(card.name, 1);
    ASSERT_THAT(model, IsOk());
    const auto parameters = (*model)->named_parameters();
    ASSERT_EQ(parameters.size(), card.parameters.size()) << card.name;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(parameters[i].key(), card.parameters[i].name);
      EXPECT_EQ(parameters[i].value().sizes().vec(), card.parameters[i].shape);
    }
  }
}

TEST(Vgg, Vgg16IsTheReference) {
  const auto model = BuildImageModel("vgg16", 1);
  ASSERT_THAT(model, IsOk());
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : (*model)->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 15'254'602);
  EXPECT_EQ((*model)->parameters().size(), 60U);
}

TEST(Vgg, InitialParametersDependOnTheSeedAlone) {
  const auto hash = [](std::uint64_t seed) {
    return FlatTensors::OfParameters(*BuildImageModel("vgg16-small", seed).value()).Hash();
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

TEST(BuildImageModel, AnUnknownNameIsRefused) {
  EXPECT_THAT(BuildImageModel("vgg17", 1), StatusIs(Code::kInvalidArgument, HasSubstr("vgg17")));
}

TEST(ActivateAndDrop, GradientFollowsTheMask) {
  const ForwardContext context{.training = true, .dropout_key = 11};
  for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
    torch::Tensor input = torch::linspace(-1, 1, 1001).requires_grad_(true);
    const torch::Tensor output = ActivateAndDrop(input * 1, activation, 0.4F, context, 3);
    output.sum().backward();
    const torch::Tensor kept = output.ne(0);
    // Kept elements pass value and gradient on, scaled by the same factor; the others pass nothing.
    const float scale = input.grad().max().item<float>();
    EXPECT_NEAR(scale, 1 / 0.6, 1e-4);
    EXPECT_TRUE(torch::equal(output.detach(), input.detach() * scale * kept));
    EXPECT_TRUE(torch::equal(input.grad().ne(0), kept));
    if (activation == Activation::kRelu) {
      EXPECT_GE(output.min().item<float>(), 0);
    }
  }
}

TEST(ActivateAndDrop, LayersAndStepsDrawDifferentMasks) {
  const auto mask = [](std::uint64_t key, std::uint64_t layer) {
    return ActivateAndDrop(torch::ones({1000}), Activation::kNone, 0.5F,
                           {.training = true, .dropout_key = key}, layer);
  };
  EXPECT_TRUE(torch::equal(mask(1, 1), mask(1, 1)));
  EXPECT_FALSE(torch::equal(mask(1, 1), mask(1, 2)));
  EXPECT_FALSE(torch::equal(mask(1, 1), mask(2, 1)));
}

TEST(ActivateAndDrop, EvaluationOnlyActivates) {
  const torch::Tensor input = torch::linspace(-1, 1, 101);
  EXPECT_TRUE(torch::equal(ActivateAndDrop(input.clone(), Activation::kRelu, 0.5F, {}, 0),
                           torch::relu(input)));
}

}  // namespace
}  // namespace paceline::train

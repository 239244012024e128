// The torch module against its model card, and the fused layers against PyTorch's.
#include "train/vgg.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "train/dropout.h"
#include "train/norm_relu_dropout.h"
#include "train/parameters.h"
#include "train/zoo.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(Vgg, HasExactlyTheTensorsOfItsCard) {
  for (const model::ModelCard& card : model::Catalog()) {
    if (card.family != model::Family::kImage) continue;
    const auto model = BuildModel(card.name, 1);
    ASSERT_THAT(model, IsOk());
    const auto parameters = model->network->named_parameters();
    ASSERT_EQ(parameters.size(), card.parameters.size()) << card.name;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(parameters[i].key(), card.parameters[i].name);
      EXPECT_EQ(parameters[i].value().sizes().vec(), card.parameters[i].shape);
    }
  }
}

TEST(Vgg, Vgg16IsTheReference) {
  const auto model = BuildModel("vgg16", 1);
  ASSERT_THAT(model, IsOk());
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model->network->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 15'254'602);
  EXPECT_EQ(model->network->parameters().size(), 60U);
}

TEST(Vgg, InitialParametersDependOnTheSeedAlone) {
  const auto hash = [](std::uint64_t seed) {
    return FlatTensors::OfParameters(*BuildModel("vgg16-small", seed)->network).Hash();
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

TEST(BuildModel, AnUnknownNameIsRefused) {
  EXPECT_THAT(BuildModel("vgg17", 1), StatusIs(Code::kInvalidArgument, HasSubstr("vgg17")));
}

TEST(Dropout, GradientFollowsTheMask) {
  torch::Tensor input = torch::linspace(-1, 1, 1001).requires_grad_(true);
  const torch::Tensor output = Dropout(input, 0.4F, {.training = true, .dropout_key = 11}, 3);
  output.sum().backward();
  // Kept elements pass value and gradient on, scaled by the same factor; the others pass nothing.
  const float scale = input.grad().max().item<float>();
  EXPECT_NEAR(scale, 1 / 0.6, 1e-4);
  EXPECT_TRUE(torch::equal(output.detach(), input.detach() * input.grad()));
  EXPECT_NEAR(input.grad().ne(0).to(torch::kFloat).mean().item<float>(), 0.6, 0.06);
}

TEST(Dropout, LayersAndStepsDrawDifferentMasks) {
  const auto drop = [](std::uint64_t key, std::uint64_t layer) {
    return Dropout(torch::ones({1000}), 0.5F, {.training = true, .dropout_key = key}, layer);
  };
  EXPECT_TRUE(torch::equal(drop(1, 1), drop(1, 1)));
  EXPECT_FALSE(torch::equal(drop(1, 1), drop(1, 2)));
  EXPECT_FALSE(torch::equal(drop(1, 1), drop(2, 1)));
}

TEST(Dropout, EvaluationChangesNothing) {
  const torch::Tensor input = torch::linspace(-1, 1, 101);
  EXPECT_TRUE(torch::equal(Dropout(input, 0.5F, {}, 0), input));
}

// The same layers by PyTorch's operators, for every kind of plane that VGG16 has.
class NormLayers : public ::testing::TestWithParam<std::vector<std::int64_t>> {
 protected:
  static NormTensors Tensors(std::int64_t channels) {
    return {torch::linspace(0.5, 1.5, channels).requires_grad_(true),
            torch::linspace(-0.5, 0.5, channels).requires_grad_(true), torch::zeros({channels}),
            torch::ones({channels})};
  }
};

TEST_P(NormLayers, MatchPyTorchForwardBackwardAndInStatistics) {
  torch::manual_seed(1);
  const torch::Tensor values = 3 + 2 * torch::randn(GetParam());
  const torch::Tensor weights = torch::randn(GetParam());
  NormTensors ours = Tensors(GetParam()[1]), theirs = Tensors(GetParam()[1]);
  torch::Tensor our_input = values.clone().requires_grad_(true);
  torch::Tensor their_input = values.clone().requires_grad_(true);
  const torch::Tensor our_output = NormReluDropout(our_input, ours, 0.0F, {.training = true}, 0);
  const torch::Tensor their_output =
      torch::relu(at::batch_norm(their_input, theirs.gamma, theirs.beta, theirs.running_mean,
                                 theirs.running_variance, /*training=*/true, 0.1, 1e-5, false));
  (our_output * weights).sum().backward();
  (their_output * weights).sum().backward();
  EXPECT_TRUE(torch::allclose(our_output, their_output, 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(our_input.grad(), their_input.grad(), 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(ours.gamma.grad(), theirs.gamma.grad(), 1e-4, 1e-3));
  EXPECT_TRUE(torch::allclose(ours.beta.grad(), theirs.beta.grad(), 1e-4, 1e-3));
  EXPECT_TRUE(torch::allclose(ours.running_mean, theirs.running_mean, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(ours.running_variance, theirs.running_variance, 1e-5, 1e-6));
  // And in evaluation, with the statistics just learnt.
  EXPECT_TRUE(torch::allclose(
      NormReluDropout(values, ours, 0.5F, {}, 0),
      torch::relu(at::batch_norm(values, theirs.gamma, theirs.beta, theirs.running_mean,
                                 theirs.running_variance, false, 0.1, 1e-5, false)),
      1e-5, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormLayers,
                         ::testing::Values(std::vector<std::int64_t>{8, 4, 32, 32},
                                           std::vector<std::int64_t>{8, 5, 4, 4},
                                           std::vector<std::int64_t>{16, 7, 2, 2},
                                           std::vector<std::int64_t>{16, 9}));

TEST(NormReluDropout, DropsWithTheMaskOfItsLayer) {
  const ForwardContext context{.training = true, .dropout_key = 5};
  const NormTensors norm{torch::ones({2}), torch::full({2}, 10.0F), torch::zeros({2}),
                         torch::ones({2})};  // a shift that lets everything through the ReLU
  const torch::Tensor input = torch::randn({4, 2, 8, 8});
  const torch::Tensor output = NormReluDropout(input, norm, 0.4F, context, 2);
  EXPECT_TRUE(
      torch::equal(output.ne(0), DropoutMask(input.sizes(), context.Dropout(2, 0.4F)).ne(0)));
}

}  // namespace
}  // namespace paceline::train

// Operators on pixels against PyTorch's.
#include <vector>

#include "train/pixel_ops.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline::train {
namespace {

struct ConvCase {
  std::int64_t images, size, in, out, kernel, stride, padding;

  friend void PrintTo(const ConvCase& c, std::ostream* out) {
    *out << c.images << "x" << c.size << "x" << c.size << " " << c.in << "->" << c.out << " kernel "
         << c.kernel << " stride " << c.stride;
  }
};

// Channels last and first; copies, so that neither side sees the other's gradients.
torch::Tensor Pixels(const torch::Tensor& images) {
  return images.detach().permute({0, 2, 3, 1}).contiguous().requires_grad_(true);
}
torch::Tensor Copy(const torch::Tensor& tensor) {
  return tensor.detach().clone().requires_grad_(true);
}

class Convolutions : public ::testing::TestWithParam<ConvCase> {
 protected:
  template <typename Ours>
  void ExpectLikePyTorch(std::int64_t groups, const Ours& ours) {
    torch::manual_seed(1);
    const ConvCase& c = GetParam();
    const torch::Tensor images = torch::randn({c.images, c.in, c.size, c.size});
    const std::int64_t out = groups == 1 ? c.out : c.in;
    const torch::Tensor weight = torch::randn({out, c.in / groups, c.kernel, c.kernel});
    torch::Tensor our_images = Pixels(images), our_weight = Copy(weight);
    torch::Tensor their_images = Copy(images), their_weight = Copy(weight);
    const torch::Tensor our_output =
        ours(our_images, our_weight, ConvSteps{c.stride, c.padding}).permute({0, 3, 1, 2});
    const torch::Tensor their_output =
        torch::conv2d(their_images, their_weight, {}, c.stride, c.padding, 1, groups);
    ASSERT_EQ(our_output.sizes(), their_output.sizes());
    EXPECT_TRUE(torch::allclose(our_output, their_output, 1e-4, 1e-4));
    const torch::Tensor factors = torch::randn_like(their_output);
    (our_output * factors).sum().backward();
    (their_output * factors).sum().backward();
    EXPECT_TRUE(
        torch::allclose(our_images.grad().permute({0, 3, 1, 2}), their_images.grad(), 1e-4, 1e-4));
    EXPECT_TRUE(torch::allclose(our_weight.grad(), their_weight.grad(), 1e-4, 1e-3));
    EXPECT_TRUE(our_weight.grad().is_contiguous());
  }
};

TEST_P(Convolutions, AsMatrixProductsMatchPyTorch) { ExpectLikePyTorch(1, WindowConv); }

TEST_P(Convolutions, WriteTheGradientOfTheWeightsToItsPlace) {
  const ConvCase& c = GetParam();
  const torch::Tensor images = torch::randn({c.images, c.size, c.size, c.in});
  const torch::Tensor weight = torch::randn({c.out, c.in, c.kernel, c.kernel});
  torch::Tensor placed = Copy(weight), anywhere = Copy(weight);
  const torch::Tensor place = torch::full_like(weight, -1);
  // Torch takes over a gradient that has no other owner; as here, the place is a view.
  const torch::Tensor output = WindowConv(images, placed, {c.stride, c.padding, place.detach()});
  output.sum().backward();
  WindowConv(images, anywhere, {c.stride, c.padding}).sum().backward();
  EXPECT_EQ(placed.grad().data_ptr(), place.data_ptr());
  EXPECT_TRUE(torch::equal(placed.grad(), anywhere.grad()));
}

TEST_P(Convolutions, DepthwiseOnesMatchPyTorch) { ExpectLikePyTorch(GetParam().in, DepthwiseConv); }

// Images of one pixel and of two, where most weights see only padding; strides; more images than
// partial sums.
INSTANTIATE_TEST_SUITE_P(
    Shapes, Convolutions,
    ::testing::Values(ConvCase{3, 5, 4, 6, 1, 1, 0}, ConvCase{3, 5, 4, 6, 1, 2, 0},
                      ConvCase{2, 1, 16, 8, 3, 1, 1}, ConvCase{2, 2, 17, 8, 3, 2, 1},
                      ConvCase{9, 2, 5, 3, 3, 1, 1}, ConvCase{17, 4, 32, 8, 3, 1, 1},
                      ConvCase{1, 7, 3, 8, 3, 2, 1}, ConvCase{2, 9, 3, 8, 7, 2, 3}));

struct NormCase {
  kernel::Gate gate;
  bool bias, addend;
};

class Norms : public ::testing::TestWithParam<NormCase> {
 protected:
  static NormTensors Tensors(std::int64_t channels) {
    return {torch::linspace(0.5, 1.5, channels).requires_grad_(true),
            torch::linspace(-0.5, 0.5, channels).requires_grad_(true), torch::zeros({channels}),
            torch::ones({channels})};
  }

  // By PyTorch's operators.
  static torch::Tensor Plain(const NormInputs& inputs, const NormTensors& norm, bool training) {
    torch::Tensor y = inputs.bias.defined() ? inputs.images + inputs.bias : inputs.images;
    y = torch::batch_norm(y.permute({0, 3, 1, 2}), norm.gamma, norm.beta, norm.running_mean,
                          norm.running_variance, training, 0.1, 1e-5, false)
            .permute({0, 2, 3, 1});
    if (inputs.addend.defined()) y = y + inputs.addend;
    if (GetParam().gate == kernel::Gate::kRelu) return y.relu();
    return GetParam().gate == kernel::Gate::kRelu6 ? torch::clamp(y, 0, 6) : y;
  }
};

TEST_P(Norms, MatchPyTorchForwardBackwardAndInStatistics) {
  torch::manual_seed(1);
  constexpr std::int64_t kChannels = 20;
  const std::vector<std::int64_t> sizes{5, 3, 4, kChannels};
  const torch::Tensor images = 3 + 4 * torch::randn(sizes), addend = 3 * torch::randn(sizes);
  const torch::Tensor bias = torch::randn({kChannels}), factors = torch::randn(sizes);
  const auto inputs = [&] {
    return NormInputs{Copy(images), GetParam().bias ? Copy(bias) : torch::Tensor(),
                      GetParam().addend ? Copy(addend) : torch::Tensor()};
  };
  const NormInputs ours = inputs(), theirs = inputs();
  const NormTensors our_norm = Tensors(kChannels), their_norm = Tensors(kChannels);
  const torch::Tensor our_output = NormAddGate(ours, our_norm, GetParam().gate, {.training = true});
  const torch::Tensor their_output = Plain(theirs, their_norm, true);
  (our_output * factors).sum().backward();
  (their_output * factors).sum().backward();
  EXPECT_TRUE(torch::allclose(our_output, their_output, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(ours.images.grad(), theirs.images.grad(), 1e-3, 1e-4));
  EXPECT_TRUE(torch::allclose(our_norm.gamma.grad(), their_norm.gamma.grad(), 1e-3, 1e-3));
  EXPECT_TRUE(torch::allclose(our_norm.beta.grad(), their_norm.beta.grad(), 1e-3, 1e-3));
  EXPECT_TRUE(torch::allclose(our_norm.running_mean, their_norm.running_mean, 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(our_norm.running_variance, their_norm.running_variance, 1e-4, 1e-5));
  if (GetParam().bias) {
    EXPECT_TRUE(torch::allclose(ours.bias.grad(), theirs.bias.grad(), 0, 1e-4));
  }
  if (GetParam().addend) {
    EXPECT_TRUE(torch::allclose(ours.addend.grad(), theirs.addend.grad()));
  }
  // And in evaluation, with the statistics just learnt.
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::allclose(NormAddGate(ours, our_norm, GetParam().gate, {}),
                              Plain(theirs, their_norm, false), 1e-3, 1e-3));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Norms,
                         ::testing::Values(NormCase{kernel::Gate::kNone, false, false},
                                           NormCase{kernel::Gate::kNone, true, true},
                                           NormCase{kernel::Gate::kRelu, true, false},
                                           NormCase{kernel::Gate::kRelu, false, true},
                                           NormCase{kernel::Gate::kRelu6, false, false},
                                           NormCase{kernel::Gate::kRelu6, true, true}));

}  // namespace
}  // namespace paceline::train

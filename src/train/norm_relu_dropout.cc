#include "train/norm_relu_dropout.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <torch/torch.h>

namespace paceline::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernel::NormShape ShapeOf(const at::Tensor& tensor) {
  const auto batch = static_cast<std::size_t>(tensor.size(0));
  const auto channels = static_cast<std::size_t>(tensor.size(1));
  const auto elements = static_cast<std::size_t>(tensor.numel());
  return {.batch = batch, .channels = channels, .plane = elements / (batch * channels)};
}

template <typename T>
std::span<T> Span(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

template <typename Body>
void ForEachChannel(const kernel::NormShape& shape, const Body& body) {
  at::parallel_for(0, static_cast<std::int64_t>(shape.channels), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t c = begin; c < end; ++c) body(static_cast<std::size_t>(c));
                   });
}

class NormReluDropoutFunction : public torch::autograd::Function<NormReluDropoutFunction> {
 public:
  // `mask` comes with the dropout's choice and is kept with the ReLU's added.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& gamma, const at::Tensor& beta,
                            const at::Tensor& running_mean, const at::Tensor& running_variance,
                            const at::Tensor& mask, double scale) {
    const kernel::NormShape shape = ShapeOf(input);
    const auto count = static_cast<double>(shape.batch * shape.plane);
    at::Tensor output = at::empty_like(input), mean = at::empty_like(gamma),
               inverse_std = at::empty_like(gamma);
    ForEachChannel(shape, [&](std::size_t c) {
      const kernel::Moments moments = kernel::ChannelMoments(shape, c, Span<float>(input));
      UpdateRunning(count, moments, Span<float>(running_mean)[c], Span<float>(running_variance)[c]);
      Span<float>(mean)[c] = moments.mean;
      Span<float>(inverse_std)[c] =
          static_cast<float>(1.0 / std::sqrt(double{moments.variance} + kNormEpsilon));
      kernel::NormActivate(shape, c,
                           {.mean = moments.mean,
                            .inverse_std = Span<float>(inverse_std)[c],
                            .gamma = Span<float>(gamma)[c],
                            .beta = Span<float>(beta)[c],
                            .scale = static_cast<float>(scale)},
                           Span<float>(input), Span<std::uint8_t>(mask), Span<float>(output));
    });
    context->save_for_backward({input, gamma, mean, inverse_std, mask});
    context->saved_data["scale"] = scale;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &gamma = saved[1], &mean = saved[2],
                     &inverse_std = saved[3], &mask = saved[4];
    const at::Tensor output_gradient = gradients[0].contiguous();
    const auto scale = static_cast<float>(context->saved_data["scale"].toDouble());
    const kernel::NormShape shape = ShapeOf(input);
    at::Tensor input_gradient = at::empty_like(input), gamma_gradient = at::empty_like(gamma),
               beta_gradient = at::empty_like(gamma);
    ForEachChannel(shape, [&](std::size_t c) {
      const kernel::NormGradient result =
          kernel::NormActivateBackward(shape, c,
                                       {.mean = Span<float>(mean)[c],
                                        .inverse_std = Span<float>(inverse_std)[c],
                                        .gamma = Span<float>(gamma)[c],
                                        .scale = scale},
                                       Span<float>(input), Span<std::uint8_t>(mask),
                                       Span<float>(output_gradient), Span<float>(input_gradient));
      Span<float>(gamma_gradient)[c] = result.gamma;
      Span<float>(beta_gradient)[c] = result.beta;
    });
    return {input_gradient, gamma_gradient, beta_gradient, at::Tensor(),
            at::Tensor(),   at::Tensor(),   at::Tensor()};
  }
};

}  // namespace

void UpdateRunning(double count, const kernel::Moments& moments, float& mean, float& variance) {
  const double unbiased = double{moments.variance} * count / std::max(1.0, count - 1);
  mean =
      static_cast<float>((1 - kNormMomentum) * double{mean} + kNormMomentum * double{moments.mean});
  variance = static_cast<float>((1 - kNormMomentum) * double{variance} + kNormMomentum * unbiased);
}

at::Tensor NormReluDropout(const at::Tensor& input, const NormTensors& norm, float probability,
                           const ForwardContext& context, std::uint64_t layer) {
  if (!context.training) {
    at::Tensor output =
        at::batch_norm(input, norm.gamma, norm.beta, norm.running_mean, norm.running_variance,
                       /*training=*/false, kNormMomentum, kNormEpsilon, /*cudnn_enabled=*/false);
    return at::relu_(output);
  }
  const kernel::DropoutOptions options = context.Dropout(layer, probability);
  const at::Tensor mask = probability == 0.0F ? at::ones(input.sizes(), at::kByte)
                                              : DropoutMask(input.sizes(), options);
  return NormReluDropoutFunction::apply(input.contiguous(), norm.gamma, norm.beta,
                                        norm.running_mean, norm.running_variance, mask,
                                        double{kernel::DropoutScale(options)});
}

}  // namespace paceline::train

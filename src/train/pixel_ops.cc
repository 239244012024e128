#include "train/pixel_ops.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <torch/torch.h>

#include "kernel/image_window.h"
#include "kernel/matrix_product.h"
#include "train/shared_loop.h"

namespace paceline::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = c10::optional<at::Tensor>;  // torch refuses undefined inputs of functions

constexpr std::size_t kLineOfChannels = 16;        // threads do not share a line of the cache
constexpr std::size_t kSharedTasksOfChannels = 4;  // narrow loops over channels are slow
// Of a product: every task rearranges the right factor for itself, which is little next to so many
// rows. A multiple of what the product's loops take at a time.
constexpr std::size_t kRowsPerTask = 48;
constexpr std::int64_t kPartialSums = 8;  // of depthwise weight gradients

std::span<float> Span(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::size_t Size(const at::Tensor& tensor, std::int64_t dimension) {
  return static_cast<std::size_t>(tensor.size(dimension));
}

// The floats of one of `count` equal parts.
std::span<float> PartOf(const at::Tensor& tensor, std::int64_t part, std::int64_t count) {
  const auto size = static_cast<std::size_t>(tensor.numel() / count);
  return Span(tensor).subspan(static_cast<std::size_t>(part) * size, size);
}

MaybeTensor MaybeContiguous(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor.contiguous()) : MaybeTensor();
}

kernel::PixelShape PixelShapeOf(const at::Tensor& images) {
  const std::size_t channels = Size(images, -1);
  return {.pixels = static_cast<std::size_t>(images.numel()) / channels, .channels = channels};
}

template <typename Body>
void ForChannels(const kernel::PixelShape& shape, const Body& body) {
  SharedLoop({shape.channels, kLineOfChannels, kSharedTasksOfChannels},
             [&](std::size_t begin, std::size_t end) {
               body(kernel::ChannelRange{begin, end});
             });
}

template <typename Body>
void ForImages(std::int64_t images, const Body& body) {
  SharedLoop({static_cast<std::size_t>(images)}, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(static_cast<std::int64_t>(i));
  });
}

// Contiguous, as it is or transposed.
kernel::MatrixView ViewOf(const at::Tensor& matrix) {
  const auto step = [&](std::int64_t dimension) {
    return static_cast<std::size_t>(matrix.stride(dimension));
  };
  return {Span(matrix), step(0), step(1)};
}

// result = left * right. Faster than OpenBLAS on the long and narrow matrices of images (1.2 to 2
// times with AVX2), and threads may share the rows of the result without changing a bit.
void Multiply(const at::Tensor& left, const at::Tensor& right, const at::Tensor& result) {
  const kernel::ProductShape shape{Size(left, 0), Size(right, 1), Size(left, 1)};
  const kernel::MatrixView all = ViewOf(left), other = ViewOf(right);
  SharedLoop({shape.rows, kRowsPerTask}, [&](std::size_t begin, std::size_t end) {
    kernel::ProductShape part = shape;
    part.rows = end - begin;
    kernel::MatrixView rows = all;
    rows.values = rows.values.subspan(begin * rows.row_step);
    kernel::Multiply(part, rows, other,
                     {Span(result).subspan(begin * shape.columns), shape.columns});
  });
}

at::Tensor Product(const at::Tensor& left, const at::Tensor& right) {
  at::Tensor result = at::empty({left.size(0), right.size(1)}, left.options());
  Multiply(left, right, result);
  return result;
}

class PixelNormFunction : public torch::autograd::Function<PixelNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const MaybeTensor& maybe_bias, const MaybeTensor& maybe_addend,
                            const at::Tensor& gamma, const at::Tensor& beta,
                            const at::Tensor& running_mean, const at::Tensor& running_variance,
                            std::int64_t gate_number) {
    const at::Tensor bias = maybe_bias.value_or(at::Tensor());
    const at::Tensor addend = maybe_addend.value_or(at::Tensor());
    const kernel::PixelShape shape = PixelShapeOf(input);
    const auto gate = static_cast<kernel::Gate>(gate_number);
    at::Tensor output = at::empty_like(input), mean = at::empty_like(gamma),
               variance = at::empty_like(gamma), inverse = at::empty_like(gamma),
               slope = at::empty_like(gamma);
    ForChannels(shape, [&](kernel::ChannelRange range) {
      kernel::PixelMoments(shape, range, Span(input), Span(mean), Span(variance));
      for (std::size_t c = range.begin; c < range.end; ++c) {
        const kernel::Moments moments{Span(mean)[c] + (bias.defined() ? Span(bias)[c] : 0.0F),
                                      Span(variance)[c]};
        UpdateRunning(static_cast<double>(shape.pixels), moments, Span(running_mean)[c],
                      Span(running_variance)[c]);
        Span(inverse)[c] =
            static_cast<float>(1.0 / std::sqrt(double{moments.variance} + kNormEpsilon));
        Span(slope)[c] = Span(inverse)[c] * Span(gamma)[c];
      }
      kernel::NormPixels(shape, range, {Span(mean), Span(slope), Span(beta)}, Span(input),
                         Span(addend), gate, Span(output));
    });
    // Without a gate backward does not look at the output.
    context->save_for_backward(
        {input, mean, slope, inverse, gate == kernel::Gate::kNone ? input : output});
    context->saved_data["gate"] = gate_number;
    context->saved_data["bias"] = bias.defined();
    context->saved_data["addend"] = addend.defined();
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &mean = saved[1], &slope = saved[2], &inverse = saved[3];
    const at::Tensor output_gradient = gradients[0].contiguous();
    const auto gate = static_cast<kernel::Gate>(context->saved_data["gate"].toInt());
    const kernel::PixelShape shape = PixelShapeOf(input);
    at::Tensor input_gradient = at::empty_like(input), gamma = at::empty_like(mean),
               beta = at::empty_like(mean), addend;
    const bool gated_addend = context->saved_data["addend"].toBool() && gate != kernel::Gate::kNone;
    if (gated_addend) addend = at::empty_like(input);
    ForChannels(shape, [&](kernel::ChannelRange range) {
      kernel::NormPixelsBackward(shape, range,
                                 {.lines = {Span(mean), Span(slope), {}},
                                  .inverse_deviation = Span(inverse),
                                  .input = Span(input),
                                  .output = Span(saved[4]),
                                  .gate = gate},
                                 Span(output_gradient),
                                 {Span(input_gradient), Span(gamma), Span(beta), Span(addend)});
    });
    if (context->saved_data["addend"].toBool() && !gated_addend) addend = output_gradient;
    const at::Tensor bias =
        context->saved_data["bias"].toBool() ? at::zeros_like(beta) : at::Tensor();
    return {input_gradient, bias, addend, gamma, beta, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The windows of a convolution, without the rows and columns of weights that see only padding.
struct Windows {
  kernel::WindowShape shape;
  std::int64_t images = 0;
  std::int64_t first_tap = 0, end_tap = 0;

  Windows(const at::Tensor& input, std::int64_t kernel, const ConvSteps& steps)
      : images(input.size(0)), first_tap(kernel) {
    const auto out = [&](std::int64_t extent) {
      return (extent + 2 * steps.padding - kernel) / steps.stride + 1;
    };
    const std::int64_t height = out(input.size(1)), width = out(input.size(2));
    for (const std::int64_t windows : {height, width}) {
      first_tap = std::min(first_tap,
                           std::max<std::int64_t>(0, steps.padding - (windows - 1) * steps.stride));
    }
    for (const std::int64_t extent : {input.size(1), input.size(2)}) {
      end_tap = std::max(end_tap, std::min(kernel, extent + steps.padding));
    }
    shape = {.height = Size(input, 1),
             .width = Size(input, 2),
             .channels = Size(input, 3),
             .out_height = static_cast<std::size_t>(height),
             .out_width = static_cast<std::size_t>(width),
             .kernel = static_cast<std::size_t>(end_tap - first_tap),
             .stride = static_cast<std::size_t>(steps.stride),
             .padding = static_cast<std::size_t>(steps.padding - first_tap)};
  }

  std::vector<std::int64_t> OutputSizes(std::int64_t channels) const {
    return {images, static_cast<std::int64_t>(shape.out_height),
            static_cast<std::int64_t>(shape.out_width), channels};
  }
  // Every window is a pixel.
  bool Pixels() const { return shape.kernel == 1 && shape.stride == 1 && shape.padding == 0; }

  // [windows of all images, kernel * kernel * channels]
  at::Tensor Gather(const at::Tensor& input) const {
    const auto width = static_cast<std::int64_t>(shape.WindowElements());
    if (Pixels()) return input.view({-1, width});
    at::Tensor rows =
        at::empty({images * static_cast<std::int64_t>(shape.Windows()), width}, input.options());
    ForImages(images, [&](std::int64_t i) {
      kernel::GatherWindows(shape, PartOf(input, i, images), PartOf(rows, i, images));
    });
    return rows;
  }

  at::Tensor Scatter(const at::Tensor& rows, at::IntArrayRef sizes) const {
    if (Pixels()) return rows.view(sizes);
    at::Tensor input = at::empty(sizes, rows.options());
    ForImages(images, [&](std::int64_t i) {
      kernel::ScatterWindows(shape, PartOf(rows, i, images), PartOf(input, i, images));
    });
    return input;
  }

  // The weights that count, [out, in, taps, taps].
  at::Tensor Used(const at::Tensor& weight) const {
    return weight.slice(2, first_tap, end_tap).slice(3, first_tap, end_tap);
  }
};

class WindowConvFunction : public torch::autograd::Function<WindowConvFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, std::int64_t stride, std::int64_t padding,
                            const MaybeTensor& place) {
    const Windows windows(images, weight.size(2), {stride, padding});
    context->save_for_backward({images, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    context->saved_data["place"] = place;
    return Product(windows.Gather(images), Rows(windows, weight).t())
        .view(windows.OutputSizes(weight.size(0)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &weight = saved[1];
    const Windows windows(
        images, weight.size(2),
        {context->saved_data["stride"].toInt(), context->saved_data["padding"].toInt()});
    const at::Tensor gradient = gradients[0].contiguous().view({-1, weight.size(0)});
    const MaybeTensor place = context->saved_data["place"].toOptional<at::Tensor>();
    context->saved_data.erase("place");  // torch copies a gradient that has other owners
    at::Tensor weight_gradient = place.has_value() ? *place : at::empty_like(weight);
    ComputeWeightGradient(windows, gradient.t(), windows.Gather(images), weight_gradient);
    return {windows.Scatter(Product(gradient, Rows(windows, weight)), images.sizes()),
            weight_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  // One row of weights for each output channel, in the order of a window's elements. Of one tap of
  // several a view would skip the others.
  static at::Tensor Rows(const Windows& windows, const at::Tensor& weight) {
    return windows.Used(weight).permute({0, 2, 3, 1}).reshape({weight.size(0), -1}).contiguous();
  }

  // Of the shape of the weights. Where windows are pixels their product is the gradient.
  static void ComputeWeightGradient(const Windows& windows, const at::Tensor& output_gradient,
                                    const at::Tensor& inputs, at::Tensor& result) {
    const at::Tensor used = windows.Used(result);
    if (result.size(2) == 1 && used.sizes() == result.sizes()) {
      Multiply(output_gradient, inputs, result.view({result.size(0), result.size(1)}));
      return;
    }
    if (used.sizes() != result.sizes()) result.zero_();
    used.copy_(Product(output_gradient, inputs)
                   .view({used.size(0), used.size(2), used.size(3), used.size(1)})
                   .permute({0, 3, 1, 2}));
  }
};

class DepthwiseFunction : public torch::autograd::Function<DepthwiseFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, std::int64_t stride, std::int64_t padding) {
    const Windows windows(images, weight.size(2), {stride, padding});
    const at::Tensor filters = Filters(windows, weight);
    at::Tensor output = at::empty(windows.OutputSizes(weight.size(0)), images.options());
    ForImages(windows.images, [&](std::int64_t i) {
      kernel::Depthwise(windows.shape, PartOf(images, i, windows.images), Span(filters),
                        PartOf(output, i, windows.images));
    });
    context->save_for_backward({images, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &weight = saved[1];
    const Windows windows(
        images, weight.size(2),
        {context->saved_data["stride"].toInt(), context->saved_data["padding"].toInt()});
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor filters = Filters(windows, weight);
    at::Tensor input_gradient = at::empty_like(images);
    // A fixed number of sums, whatever the number of threads.
    at::Tensor sums = at::zeros({kPartialSums, filters.size(0), filters.size(1)});
    ForImages(kPartialSums, [&](std::int64_t part) {
      for (std::int64_t i = part; i < windows.images; i += kPartialSums) {
        const std::span<float> image_gradient = PartOf(gradient, i, windows.images);
        kernel::DepthwiseInputGradient(windows.shape, image_gradient, Span(filters),
                                       PartOf(input_gradient, i, windows.images));
        kernel::AddDepthwiseWeightGradient(windows.shape, PartOf(images, i, windows.images),
                                           image_gradient, PartOf(sums, part, kPartialSums));
      }
    });
    at::Tensor weight_gradient = at::zeros_like(weight);
    const at::Tensor used = windows.Used(weight_gradient);
    used.copy_(sums.sum(0).t().view(used.sizes()));
    return {input_gradient, weight_gradient, at::Tensor(), at::Tensor()};
  }

 private:
  // [kernel * kernel, channels]
  static at::Tensor Filters(const Windows& windows, const at::Tensor& weight) {
    return windows.Used(weight).reshape({weight.size(0), -1}).t().contiguous();
  }
};

}  // namespace

at::Tensor NormAddGate(const NormInputs& inputs, const NormTensors& norm, kernel::Gate gate,
                       const ForwardContext& context) {
  if (context.training) {
    return PixelNormFunction::apply(inputs.images.contiguous(), MaybeContiguous(inputs.bias),
                                    MaybeContiguous(inputs.addend), norm.gamma, norm.beta,
                                    norm.running_mean, norm.running_variance,
                                    static_cast<std::int64_t>(gate));
  }
  const at::Tensor slope = norm.gamma * at::rsqrt(norm.running_variance + kNormEpsilon);
  const at::Tensor mean =
      inputs.bias.defined() ? norm.running_mean - inputs.bias : norm.running_mean;
  at::Tensor output = at::addcmul(norm.beta - mean * slope, inputs.images, slope);
  if (inputs.addend.defined()) output.add_(inputs.addend);
  if (gate == kernel::Gate::kRelu) output.relu_();
  if (gate == kernel::Gate::kRelu6) output.clamp_(0, 6);
  return output;
}

at::Tensor WindowConv(const at::Tensor& images, const at::Tensor& weight, const ConvSteps& steps) {
  return WindowConvFunction::apply(images.contiguous(), weight, steps.stride, steps.padding,
                                   MaybeContiguous(steps.weight_gradient));
}

at::Tensor DepthwiseConv(const at::Tensor& images, const at::Tensor& weight,
                         const ConvSteps& steps) {
  return DepthwiseFunction::apply(images.contiguous(), weight, steps.stride, steps.padding);
}

}  // namespace paceline::train

#include "train/dropout.h"

#include <span>

#include <torch/torch.h>

#include "base/rng.h"
#include "kernel/dropout.h"

namespace paceline::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kGroup = kernel::kDropoutGroup;
constexpr std::int64_t kGroupsPerTask = 512;  // 32 Ki elements: tens of microseconds of work

// Runs body(first, count) over ranges of elements that begin at a dropout group.
template <typename Body>
void OverGroups(std::int64_t elements, const Body& body) {
  const std::int64_t groups = (elements + kGroup - 1) / kGroup;
  at::parallel_for(0, groups, kGroupsPerTask, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kGroup;
    body(static_cast<std::size_t>(first),
         static_cast<std::size_t>(std::min(end * kGroup, elements) - first));
  });
}

template <typename T>
std::span<T> Range(const at::Tensor& tensor, std::size_t first, std::size_t count) {
  return {tensor.data_ptr<T>() + first, count};
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor values, std::int64_t key,
                            double probability, bool relu) {
    const kernel::DropoutOptions options{.key = static_cast<std::uint64_t>(key),
                                         .probability = static_cast<float>(probability),
                                         .relu = relu};
    at::Tensor mask = at::empty(values.sizes(), values.options().dtype(at::kByte));
    OverGroups(values.numel(), [&](std::size_t first, std::size_t count) {
      kernel::DropoutForward(options, first, Range<float>(values, first, count),
                             Range<std::uint8_t>(mask, first, count));
    });
    context->mark_dirty({values});
    context->save_for_backward({mask});
    context->saved_data["scale"] = static_cast<double>(kernel::DropoutScale(options));
    return values;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor mask = context->get_saved_variables()[0];
    const at::Tensor gradient = gradients[0].contiguous();
    const auto scale = static_cast<float>(context->saved_data["scale"].toDouble());
    at::Tensor result = at::empty_like(gradient);
    OverGroups(gradient.numel(), [&](std::size_t first, std::size_t count) {
      kernel::MaskedScale(Range<float>(gradient, first, count),
                          Range<std::uint8_t>(mask, first, count), scale,
                          Range<float>(result, first, count));
    });
    return {result, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ActivateAndDrop(at::Tensor input, Activation activation, float probability,
                           const ForwardContext& context, std::uint64_t layer) {
  const bool relu = activation == Activation::kRelu;
  if (!context.training || probability == 0.0F) return relu ? at::relu_(input) : input;
  const std::uint64_t key = DeriveKey(context.dropout_key, Purpose::kDropout, layer, 0);
  return DropoutFunction::apply(input.contiguous(), static_cast<std::int64_t>(key),
                                double{probability}, relu);
}

}  // namespace paceline::train

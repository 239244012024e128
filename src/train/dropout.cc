#include "train/dropout.h"

#include <algorithm>
#include <span>

#include <torch/torch.h>

#include "base/rng.h"

namespace paceline::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kGroup = kernel::kDropoutGroup;
constexpr std::int64_t kGroupsPerTask = 512;  // 32 Ki elements: tens of microseconds of work

at::Tensor Apply(const at::Tensor& values, const at::Tensor& mask, double scale) {
  at::Tensor result = at::empty_like(values);
  const auto count = static_cast<std::size_t>(values.numel());
  kernel::MaskedScale({values.data_ptr<float>(), count}, {mask.data_ptr<std::uint8_t>(), count},
                      static_cast<float>(scale), {result.data_ptr<float>(), count});
  return result;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values,
                            const at::Tensor& mask, double scale) {
    context->save_for_backward({mask});
    context->saved_data["scale"] = scale;
    return Apply(values, mask, scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Apply(gradients[0].contiguous(), context->get_saved_variables()[0],
                  context->saved_data["scale"].toDouble()),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

kernel::DropoutOptions ForwardContext::Dropout(std::uint64_t layer, float probability) const {
  return {.key = DeriveKey(dropout_key, Purpose::kDropout, layer, 0), .probability = probability};
}

at::Tensor DropoutMask(at::IntArrayRef sizes, const kernel::DropoutOptions& options) {
  at::Tensor mask = at::empty(sizes, at::kByte);
  const std::int64_t elements = mask.numel();
  auto* bytes = mask.data_ptr<std::uint8_t>();
  const std::int64_t groups = (elements + kGroup - 1) / kGroup;
  at::parallel_for(0, groups, kGroupsPerTask, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kGroup;
    const auto count = static_cast<std::size_t>(std::min(end * kGroup, elements) - first);
    kernel::DropoutMask(options, static_cast<std::size_t>(first), {bytes + first, count});
  });
  return mask;
}

at::Tensor Dropout(const at::Tensor& input, float probability, const ForwardContext& context,
                   std::uint64_t layer) {
  if (!context.training || probability == 0.0F) return input;
  const kernel::DropoutOptions options = context.Dropout(layer, probability);
  return DropoutFunction::apply(input.contiguous(), DropoutMask(input.sizes(), options),
                                double{kernel::DropoutScale(options)});
}

}  // namespace paceline::train

#pragma once

#include <cstdint>
#include <span>

namespace paceline::kernel {

// One update of a range of parameters, in place. All spans of one call have the same length.
// The formulas are PyTorch's, so that results can be compared with it. The gradient is only read:
// weight decay (L2) is added on the fly.

struct SgdOptions {
  float learning_rate = 0.01F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
};
// With momentum 0 `velocity` may be empty.
void SgdStep(const SgdOptions& options, std::span<float> params, std::span<const float> gradient,
             std::span<float> velocity);

struct AdamOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;
};
// `step` counts from 1.
void AdamStep(const AdamOptions& options, std::uint64_t step, std::span<float> params,
              std::span<const float> gradient, std::span<float> mean, std::span<float> variance);

struct AdagradOptions {
  float learning_rate = 1e-2F;
  float epsilon = 1e-10F;
  float weight_decay = 0.0F;
};
void AdagradStep(const AdagradOptions& options, std::span<float> params,
                 std::span<const float> gradient, std::span<float> sum_of_squares);

}  // namespace paceline::kernel

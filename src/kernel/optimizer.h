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
  float scale = 1.0F;  // of gradient and decay together: LARS's ratio of the tensor
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
  float decoupled_decay = 0.0F;  // AdamW: shrinks the parameters instead
};
// `step` counts from 1.
void AdamStep(const AdamOptions& options, std::uint64_t step, std::span<float> params,
              std::span<const float> gradient, std::span<float> mean, std::span<float> variance);

// What of Adam depends on the step alone: computed once when many short ranges take the same step.
struct AdamFactors {
  float step_size;        // learning rate over the bias correction of the mean
  float root_correction;  // of the variance's root
};
AdamFactors AdamFactorsAt(const AdamOptions& options, std::uint64_t step);
void AdamStep(const AdamOptions& options, const AdamFactors& factors, std::span<float> params,
              std::span<const float> gradient, std::span<float> mean, std::span<float> variance);

// LARS: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017. What
// SgdStep() takes as `scale` for a tensor with these norms; 1 when one of them is 0. As in
// PyTorch's SGD the learning rate stays outside of the velocity, so a schedule acts at once.
struct LarsOptions {
  double trust_coefficient = 1e-3;
  double weight_decay = 0;
  double epsilon = 1e-8;
};
float LarsScale(const LarsOptions& options, double params_norm, double gradient_norm);

// LAMB: You et al., "Large batch optimization for deep learning", ICLR 2020, algorithm 2, with phi
// the identity and bias correction. A step of a tensor is LambDirection() over all of it, then
// SgdStep() along the direction with the learning rate times LambRatio(). The direction replaces
// the gradient; weight_decay is part of it, and decoupled_decay is not used.
void LambDirection(const AdamOptions& options, std::uint64_t step, std::span<const float> params,
                   std::span<float> gradient, std::span<float> mean, std::span<float> variance);
// 1 when one of the norms is 0.
double LambRatio(double params_norm, double direction_norm);

struct AdagradOptions {
  float learning_rate = 1e-2F;
  float epsilon = 1e-10F;
  float weight_decay = 0.0F;
};
void AdagradStep(const AdagradOptions& options, std::span<float> params,
                 std::span<const float> gradient, std::span<float> sum_of_squares);

// FTRL-Proximal, "per-coordinate" form: McMahan et al., "Ad click prediction: a view from the
// trenches", KDD 2013, algorithm 1. PyTorch has none; the names are the paper's.
struct FtrlOptions {
  float learning_rate = 0.1F;  // alpha; may change between steps; 0: nothing moves
  float beta = 1.0F;
  float l1 = 0.0F;  // a parameter whose |z| stays within it is exactly 0
  float l2 = 0.0F;
};
// `z` and `n` start with zeros. The paper starts with parameters of 0; a parameter that starts
// elsewhere counts as the minimiser of what was seen before, so that it is not lost at its first
// gradient. Until that one (n = 0) it stays what it is. For the same reason another learning rate
// than that of the step before moves no parameter by itself: z is taken at the rate of this step.
void FtrlStep(const FtrlOptions& options, std::span<float> params, std::span<const float> gradient,
              std::span<float> z, std::span<float> n);

}  // namespace paceline::kernel

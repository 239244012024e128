#include "kernel/optimizer.h"

#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace paceline::kernel {

void SgdStep(const SgdOptions& options, std::span<float> params, std::span<const float> gradient,
             std::span<float> velocity) {
  PACELINE_CHECK(params.size() == gradient.size(), "one gradient per parameter");
  const float lr = options.learning_rate, decay = options.weight_decay, mu = options.momentum;
  const float scale = options.scale;  // times 1 changes no bit
  float* __restrict p = params.data();
  const float* __restrict g = gradient.data();
  const std::size_t n = params.size();
  if (mu == 0.0F) {
    for (std::size_t i = 0; i < n; ++i) p[i] -= lr * (scale * (g[i] + decay * p[i]));
    return;
  }
  PACELINE_CHECK(velocity.size() == n, "momentum needs one velocity per parameter");
  float* __restrict v = velocity.data();
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = mu * v[i] + scale * (g[i] + decay * p[i]);
    p[i] -= lr * v[i];
  }
}

AdamFactors AdamFactorsAt(const AdamOptions& options, std::uint64_t step) {
  PACELINE_CHECK(step > 0, "Adam counts steps from 1");
  const double t = static_cast<double>(step);
  return {static_cast<float>(options.learning_rate / (1.0 - std::pow(double{options.beta1}, t))),
          static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(double{options.beta2}, t)))};
}

void AdamStep(const AdamOptions& options, std::uint64_t step, std::span<float> params,
              std::span<const float> gradient, std::span<float> mean, std::span<float> variance) {
  AdamStep(options, AdamFactorsAt(options, step), params, gradient, mean, variance);
}

void AdamStep(const AdamOptions& options, const AdamFactors& factors, std::span<float> params,
              std::span<const float> gradient, std::span<float> mean, std::span<float> variance) {
  PACELINE_CHECK(params.size() == gradient.size() && params.size() == mean.size() &&
                     params.size() == variance.size(),
                 "one gradient, mean and variance per parameter");
  const auto [step_size, root_correction] = factors;
  const float b1 = options.beta1, b2 = options.beta2;
  const float c1 = 1.0F - b1, c2 = 1.0F - b2;
  const float epsilon = options.epsilon, decay = options.weight_decay;
  // Without decoupled decay a factor of 1, which changes no bit.
  const auto shrink =
      static_cast<float>(1.0 - double{options.learning_rate} * double{options.decoupled_decay});
  float* __restrict p = params.data();
  const float* __restrict g = gradient.data();
  float* __restrict m = mean.data();
  float* __restrict v = variance.data();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const float gradient_i = g[i] + decay * p[i];
    m[i] = b1 * m[i] + c1 * gradient_i;
    v[i] = b2 * v[i] + c2 * gradient_i * gradient_i;
    p[i] = shrink * p[i] - step_size * m[i] / (std::sqrt(v[i]) * root_correction + epsilon);
  }
}

float LarsScale(const LarsOptions& options, double params_norm, double gradient_norm) {
  if (params_norm == 0 || gradient_norm == 0) return 1.0F;
  return static_cast<float>(options.trust_coefficient * params_norm /
                            (gradient_norm + options.weight_decay * params_norm + options.epsilon));
}

void LambDirection(const AdamOptions& options, std::uint64_t step, std::span<const float> params,
                   std::span<float> gradient, std::span<float> mean, std::span<float> variance) {
  PACELINE_CHECK(params.size() == gradient.size() && params.size() == mean.size() &&
                     params.size() == variance.size(),
                 "one gradient, mean and variance per parameter");
  AdamOptions unit = options;
  unit.learning_rate = 1.0F;
  const auto [mean_correction, root_correction] = AdamFactorsAt(unit, step);
  const float b1 = options.beta1, b2 = options.beta2;
  const float c1 = 1.0F - b1, c2 = 1.0F - b2;
  const float epsilon = options.epsilon, decay = options.weight_decay;
  const float* __restrict p = params.data();
  float* __restrict g = gradient.data();
  float* __restrict m = mean.data();
  float* __restrict v = variance.data();
  for (std::size_t i = 0; i < params.size(); ++i) {
    m[i] = b1 * m[i] + c1 * g[i];
    v[i] = b2 * v[i] + c2 * g[i] * g[i];
    g[i] = mean_correction * m[i] / (std::sqrt(v[i]) * root_correction + epsilon) + decay * p[i];
  }
}

double LambRatio(double params_norm, double direction_norm) {
  return params_norm == 0 || direction_norm == 0 ? 1.0 : params_norm / direction_norm;
}

void AdagradStep(const AdagradOptions& options, std::span<float> params,
                 std::span<const float> gradient, std::span<float> sum_of_squares) {
  PACELINE_CHECK(params.size() == gradient.size() && params.size() == sum_of_squares.size(),
                 "one gradient and sum per parameter");
  const float lr = options.learning_rate, epsilon = options.epsilon, decay = options.weight_decay;
  float* __restrict p = params.data();
  const float* __restrict g = gradient.data();
  float* __restrict s = sum_of_squares.data();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const float gradient_i = g[i] + decay * p[i];
    s[i] += gradient_i * gradient_i;
    p[i] -= lr * gradient_i / (std::sqrt(s[i]) + epsilon);
  }
}

void FtrlStep(const FtrlOptions& options, std::span<float> params, std::span<const float> gradient,
              std::span<float> z, std::span<float> n) {
  PACELINE_CHECK(
      params.size() == gradient.size() && params.size() == z.size() && params.size() == n.size(),
      "one gradient, z and n per parameter");
  const float alpha = options.learning_rate, beta = options.beta, l1 = options.l1, l2 = options.l2;
  if (alpha == 0.0F) return;  // nothing moves; the formulas would divide by it
  float* __restrict p = params.data();
  const float* __restrict g = gradient.data();
  float* __restrict zs = z.data();
  float* __restrict ns = n.data();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const float root = std::sqrt(ns[i]);
    const float n_after = ns[i] + g[i] * g[i];
    const float root_after = std::sqrt(n_after);
    // The z under which the parameter is what it is at this learning rate, solved from the last
    // lines of this loop. Only a parameter of 0 has many.
    const float z_of_value = -p[i] * ((beta + root) / alpha + l2) - std::copysign(l1, p[i]);
    const float z_before = p[i] == 0.0F ? zs[i] : z_of_value;
    const float z_after = z_before + g[i] - (root_after - root) / alpha * p[i];
    const float shrunk = z_after - std::copysign(l1, z_after);
    const float moved = -shrunk / ((beta + root_after) / alpha + l2);
    const float minimiser = std::abs(z_after) <= l1 ? 0.0F : moved;
    p[i] = n_after == 0.0F ? p[i] : minimiser;
    zs[i] = z_after;
    ns[i] = n_after;
  }
}

}  // namespace paceline::kernel

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/status.h"
#include "kernel/optimizer.h"

namespace paceline::ps {

enum class RowOptimizerKind {
  kSgd,
  kMomentum,
  kAdagrad,
  kAdam,  // lazy: a row that gets no gradient stays as it is, and counts only its own updates
  kFtrl,
  kAdamW,  // lazy, like Adam: also decay comes with a gradient
};
inline constexpr RowOptimizerKind kLastRowOptimizer = RowOptimizerKind::kAdamW;

// "sgd", "momentum", "adagrad", "adam", "ftrl", "adamw".
const char* RowOptimizerName(RowOptimizerKind kind);
Result<RowOptimizerKind> ParseRowOptimizer(std::string_view name);

struct RowOptimizerOptions {
  RowOptimizerKind kind = RowOptimizerKind::kSgd;
  float weight_decay = 0.0F;  // all but FTRL, which has l1 and l2
  float momentum = 0.9F;      // momentum
  float beta1 = 0.9F;         // Adam, AdamW
  float beta2 = 0.999F;       // Adam, AdamW
  float epsilon = 1e-8F;      // Adam, AdamW, Adagrad
  float ftrl_beta = 1.0F;
  float ftrl_l1 = 0.0F;
  float ftrl_l2 = 0.0F;

  friend bool operator==(const RowOptimizerOptions&, const RowOptimizerOptions&) = default;
};

// Of kAdam and kAdamW.
kernel::AdamOptions AdamOf(const RowOptimizerOptions& options, float learning_rate);

// How many floats an optimiser keeps for a row of `dim` values; they start with zeros.
std::size_t StateFloats(RowOptimizerKind kind, std::size_t dim);

// What one gradient is applied to. `state` has StateFloats(kind, values.size()).
struct RowSpans {
  std::span<float> values;
  std::span<float> state;
};

// Applies one gradient to one row.
void ApplyGradient(const RowOptimizerOptions& options, float learning_rate,
                   std::span<const float> gradient, const RowSpans& row);

}  // namespace paceline::ps

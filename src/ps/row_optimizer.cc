#include "ps/row_optimizer.h"

#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::ps {
namespace {

constexpr std::array kAllKinds{RowOptimizerKind::kSgd,     RowOptimizerKind::kMomentum,
                               RowOptimizerKind::kAdagrad, RowOptimizerKind::kAdam,
                               RowOptimizerKind::kFtrl,    RowOptimizerKind::kAdamW};

void ApplyAdam(const RowOptimizerOptions& options, float learning_rate,
               std::span<const float> gradient, const RowSpans& row) {
  const std::size_t dim = row.values.size();
  // A float counts exactly to 2^24 and stays there, where the corrections have long been 1.
  float& updates = row.state[2 * dim];
  updates += 1.0F;
  kernel::AdamStep(AdamOf(options, learning_rate), static_cast<std::uint64_t>(updates), row.values,
                   gradient, row.state.first(dim), row.state.subspan(dim, dim));
}

}  // namespace

kernel::AdamOptions AdamOf(const RowOptimizerOptions& options, float learning_rate) {
  const bool decoupled = options.kind == RowOptimizerKind::kAdamW;
  return {.learning_rate = learning_rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = decoupled ? 0.0F : options.weight_decay,
          .decoupled_decay = decoupled ? options.weight_decay : 0.0F};
}

const char* RowOptimizerName(RowOptimizerKind kind) {
  switch (kind) {
    case RowOptimizerKind::kSgd: return "sgd";
    case RowOptimizerKind::kMomentum: return "momentum";
    case RowOptimizerKind::kAdagrad: return "adagrad";
    case RowOptimizerKind::kAdam: return "adam";
    case RowOptimizerKind::kFtrl: return "ftrl";
    case RowOptimizerKind::kAdamW: return "adamw";
  }
  return "unknown";
}

Result<RowOptimizerKind> ParseRowOptimizer(std::string_view name) {
  for (const RowOptimizerKind kind : kAllKinds) {
    if (name == RowOptimizerName(kind)) return kind;
  }
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("no optimizer of rows is named '{}': sgd, momentum, adagrad, adam, ftrl, adamw",
                  name));
}

std::size_t StateFloats(RowOptimizerKind kind, std::size_t dim) {
  switch (kind) {
    case RowOptimizerKind::kSgd: return 0;
    case RowOptimizerKind::kMomentum:
    case RowOptimizerKind::kAdagrad: return dim;
    case RowOptimizerKind::kAdam:
    case RowOptimizerKind::kAdamW: return 2 * dim + 1;  // mean, variance, number of updates
    case RowOptimizerKind::kFtrl: return 2 * dim;       // z, n
  }
  return 0;
}

void ApplyGradient(const RowOptimizerOptions& options, float learning_rate,
                   std::span<const float> gradient, const RowSpans& row) {
  const std::size_t dim = row.values.size();
  PACELINE_CHECK(row.state.size() == StateFloats(options.kind, dim), "the state of this optimiser");
  switch (options.kind) {
    case RowOptimizerKind::kSgd:
      kernel::SgdStep({.learning_rate = learning_rate, .weight_decay = options.weight_decay},
                      row.values, gradient, {});
      return;
    case RowOptimizerKind::kMomentum:
      kernel::SgdStep({.learning_rate = learning_rate,
                       .momentum = options.momentum,
                       .weight_decay = options.weight_decay},
                      row.values, gradient, row.state);
      return;
    case RowOptimizerKind::kAdagrad:
      kernel::AdagradStep({.learning_rate = learning_rate,
                           .epsilon = options.epsilon,
                           .weight_decay = options.weight_decay},
                          row.values, gradient, row.state);
      return;
    case RowOptimizerKind::kAdam:
    case RowOptimizerKind::kAdamW: ApplyAdam(options, learning_rate, gradient, row); return;
    case RowOptimizerKind::kFtrl:
      kernel::FtrlStep({.learning_rate = learning_rate,
                        .beta = options.ftrl_beta,
                        .l1 = options.ftrl_l1,
                        .l2 = options.ftrl_l2},
                       row.values, gradient, row.state.first(dim), row.state.subspan(dim, dim));
      return;
  }
}

}  // namespace paceline::ps

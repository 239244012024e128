#include "train/optimizer.h"

#include <torch/torch.h>

#include <fmt/format.h>

#include "kernel/optimizer.h"

namespace paceline::train {

namespace {

constexpr std::int64_t kElementsPerTask = 1 << 16;

std::vector<std::string> StateNames(const OptimizerOptions& options) {
  if (options.name == "adam") return {"mean", "variance"};
  if (options.name == "adagrad") return {"sum_of_squares"};
  return options.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"velocity"};
}

}  // namespace

Result<Optimizer> Optimizer::Make(const OptimizerOptions& options, FlatTensors& params) {
  if (options.name != "sgd" && options.name != "adam" && options.name != "adagrad") {
    return Status::Error(Code::kInvalidArgument, fmt::format("no optimizer '{}'", options.name));
  }
  Optimizer optimizer(options, params);
  for (const std::string& name : StateNames(options)) {
    optimizer.states_.push_back({name, std::vector<float>(params.All().size())});
  }
  return optimizer;
}

void Optimizer::Apply(double learning_rate, const GradientSpans& gradient) {
  ++updates_;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const NamedRange& range = params_->ranges()[i];
    at::parallel_for(0, static_cast<std::int64_t>(range.count), kElementsPerTask,
                     [&](std::int64_t begin, std::int64_t end) {
                       const auto first = static_cast<std::size_t>(begin);
                       ApplyRange(
                           learning_rate, range.offset + first,
                           gradient[i].subspan(first, static_cast<std::size_t>(end - begin)));
                     });
  }
}

void Optimizer::ApplyRange(double learning_rate, std::size_t offset,
                           std::span<const float> gradient) {
  const auto lr = static_cast<float>(learning_rate);
  const auto decay = static_cast<float>(options_.weight_decay);
  const std::span<float> params = params_->All().subspan(offset, gradient.size());
  const auto state = [&](std::size_t i) {
    return std::span<float>(states_[i].values).subspan(offset, gradient.size());
  };
  if (options_.name == "adam") {
    kernel::AdamStep({.learning_rate = lr, .weight_decay = decay}, updates_, params, gradient,
                     state(0), state(1));
  } else if (options_.name == "adagrad") {
    kernel::AdagradStep({.learning_rate = lr, .weight_decay = decay}, params, gradient, state(0));
  } else {
    const auto momentum = static_cast<float>(options_.momentum);
    kernel::SgdStep({.learning_rate = lr, .momentum = momentum, .weight_decay = decay}, params,
                    gradient, momentum == 0 ? std::span<float>{} : state(0));
  }
}

}  // namespace paceline::train

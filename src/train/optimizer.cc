#include "train/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <torch/torch.h>

#include <fmt/format.h>

#include "algo/shard_layout.h"
#include "base/check.h"
#include "kernel/optimizer.h"
#include "kernel/reduce.h"

namespace paceline::train {

namespace {

// What one thread does at a time. Part of the result of LARS and LAMB: norms are added block by
// block.
constexpr std::size_t kBlock = std::size_t{1} << 16;

std::size_t Blocks(std::size_t count) { return (count + kBlock - 1) / kBlock; }

// body(number, begin, count) for each block of `count` elements, on several threads.
template <typename Body>
void ForEachBlock(std::size_t count, const Body& body) {
  at::parallel_for(0, static_cast<std::int64_t>(Blocks(count)), 1,
                   [&](std::int64_t first, std::int64_t end) {
                     for (auto block = static_cast<std::size_t>(first);
                          block < static_cast<std::size_t>(end); ++block) {
                       const std::size_t begin = block * kBlock;
                       body(block, begin, std::min(kBlock, count - begin));
                     }
                   });
}

double Root(const std::vector<double>& squares) {
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

std::vector<std::string> StateNames(const OptimizerOptions& options) {
  if (options.name == "adam" || options.name == "adamw" || options.name == "lamb") {
    return {"mean", "variance"};
  }
  if (options.name == "adagrad") return {"sum_of_squares"};
  if (options.name == "ftrl") return {"ftrl_z", "ftrl_n"};
  return options.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"velocity"};
}

kernel::AdamOptions AdamOf(const OptimizerOptions& options, double learning_rate, double decay) {
  const bool decoupled = options.name == "adamw";
  return {.learning_rate = static_cast<float>(learning_rate),
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .weight_decay = decoupled ? 0.0F : static_cast<float>(decay),
          .decoupled_decay = decoupled ? static_cast<float>(decay) : 0.0F};
}

}  // namespace

Result<OptimizerOptions> OptimizerOf(const job::TrainConfig& config) {
  PACELINE_ASSIGN(const algo::DecayRule decay, algo::DecayRule::Parse(config.decay_exclude));
  return OptimizerOptions{.name = config.optimizer,
                          .momentum = config.momentum,
                          .beta1 = config.beta1,
                          .beta2 = config.beta2,
                          .epsilon = config.epsilon,
                          .trust_coefficient = config.trust_coefficient,
                          .ftrl_l1 = config.ftrl_l1,
                          .weight_decay = config.weight_decay,
                          .decay = decay};
}

Result<Optimizer> Optimizer::Make(const OptimizerOptions& options, FlatTensors& params) {
  constexpr std::array kNames{"sgd", "adam", "adamw", "adagrad", "ftrl", "lars", "lamb"};
  if (std::ranges::find(kNames, options.name) == kNames.end()) {
    return Status::Error(Code::kInvalidArgument, fmt::format("no optimizer '{}'", options.name));
  }
  Optimizer optimizer(options, params);
  for (const std::string& name : StateNames(options)) {
    optimizer.states_.push_back({name, optimizer.own_.emplace_back(params.All().size())});
  }
  for (const NamedRange& range : params.ranges()) {
    optimizer.decays_.push_back(options.decay.Decays(range.name, range.shape.size()));
  }
  return optimizer;
}

Optimizer::Part Optimizer::PartOf(std::size_t offset, std::span<float> gradient) {
  Part part{params_->All().subspan(offset, gradient.size()), gradient, {}};
  for (State& state : states_) {
    part.states.push_back(state.values.subspan(offset, gradient.size()));
  }
  return part;
}

void Optimizer::MoveTo(std::span<float> memory, FlatTensors::Values values) {
  PACELINE_CHECK(memory.size() == StateFloats(), "room for this state");
  for (State& state : states_) {
    const std::span<float> place = memory.first(state.values.size());
    if (values == FlatTensors::Values::kBring) std::ranges::copy(state.values, place.begin());
    state.values = place;
    memory = memory.subspan(place.size());
  }
  own_.clear();
}

void Optimizer::Apply(double learning_rate, const GradientSpans& gradient, Share share) {
  ++updates_;
  const algo::Slice mine = algo::SliceOf(params_->All().size(), share.of, share.index);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::size_t offset = params_->ranges()[i].offset;
    if (options_.name == "lars" || options_.name == "lamb") {
      if (offset < mine.begin || offset >= mine.end) continue;
      options_.name == "lars" ? ApplyLars(i, gradient[i], learning_rate)
                              : ApplyLamb(i, gradient[i], learning_rate);
      continue;
    }
    const std::size_t begin = std::max(offset, mine.begin);
    const std::size_t end = std::min(offset + gradient[i].size(), mine.end);
    if (begin < end) {
      ApplyElements(i, begin, gradient[i].subspan(begin - offset, end - begin), learning_rate);
    }
  }
}

// Of a tensor, those from `offset` of all parameters on.
void Optimizer::ApplyElements(std::size_t tensor, std::size_t offset, std::span<float> gradient,
                              double learning_rate) {
  ForEachBlock(gradient.size(), [&](std::size_t, std::size_t begin, std::size_t count) {
    ApplyPart(PartOf(offset + begin, gradient.subspan(begin, count)), learning_rate,
              DecayOf(tensor));
  });
}

void Optimizer::ApplyPart(const Part& part, double learning_rate, double weight_decay) const {
  const auto lr = static_cast<float>(learning_rate);
  const auto decay = static_cast<float>(weight_decay);
  if (options_.name == "adam" || options_.name == "adamw") {
    kernel::AdamStep(AdamOf(options_, learning_rate, weight_decay), updates_, part.params,
                     part.gradient, part.states[0], part.states[1]);
  } else if (options_.name == "adagrad") {
    kernel::AdagradStep({.learning_rate = lr,
                         .epsilon = static_cast<float>(options_.epsilon),
                         .weight_decay = decay},
                        part.params, part.gradient, part.states[0]);
  } else if (options_.name == "ftrl") {
    kernel::FtrlStep({.learning_rate = lr, .l1 = static_cast<float>(options_.ftrl_l1), .l2 = decay},
                     part.params, part.gradient, part.states[0], part.states[1]);
  } else {
    kernel::SgdStep({.learning_rate = lr,
                     .momentum = static_cast<float>(options_.momentum),
                     .weight_decay = decay},
                    part.params, part.gradient,
                    part.states.empty() ? std::span<float>{} : part.states[0]);
  }
}

void Optimizer::ApplyLars(std::size_t tensor, std::span<float> gradient, double learning_rate) {
  const std::size_t offset = params_->ranges()[tensor].offset;
  const double decay = DecayOf(tensor);
  kernel::SgdOptions sgd{.learning_rate = static_cast<float>(learning_rate),
                         .momentum = static_cast<float>(options_.momentum),
                         .weight_decay = static_cast<float>(decay)};
  if (decays_[tensor]) {
    std::vector<double> of_params(Blocks(gradient.size())), of_gradient(of_params.size());
    ForEachBlock(gradient.size(), [&](std::size_t block, std::size_t begin, std::size_t count) {
      of_params[block] = kernel::SquaredNorm(params_->All().subspan(offset + begin, count));
      of_gradient[block] = kernel::SquaredNorm(gradient.subspan(begin, count));
    });
    sgd.scale = kernel::LarsScale({.trust_coefficient = options_.trust_coefficient,
                                   .weight_decay = decay,
                                   .epsilon = options_.epsilon},
                                  Root(of_params), Root(of_gradient));
  }
  ForEachBlock(gradient.size(), [&](std::size_t, std::size_t begin, std::size_t count) {
    const Part part = PartOf(offset + begin, gradient.subspan(begin, count));
    kernel::SgdStep(sgd, part.params, part.gradient,
                    part.states.empty() ? std::span<float>{} : part.states[0]);
  });
}

void Optimizer::ApplyLamb(std::size_t tensor, std::span<float> gradient, double learning_rate) {
  const std::size_t offset = params_->ranges()[tensor].offset;
  const kernel::AdamOptions adam = AdamOf(options_, learning_rate, DecayOf(tensor));
  std::vector<double> of_params(Blocks(gradient.size())), of_direction(of_params.size());
  ForEachBlock(gradient.size(), [&](std::size_t block, std::size_t begin, std::size_t count) {
    const Part part = PartOf(offset + begin, gradient.subspan(begin, count));
    kernel::LambDirection(adam, updates_, part.params, part.gradient, part.states[0],
                          part.states[1]);
    of_params[block] = kernel::SquaredNorm(part.params);
    of_direction[block] = kernel::SquaredNorm(part.gradient);
  });
  const double ratio =
      decays_[tensor] ? kernel::LambRatio(Root(of_params), Root(of_direction)) : 1.0;
  ForEachBlock(gradient.size(), [&](std::size_t, std::size_t begin, std::size_t count) {
    kernel::SgdStep({.learning_rate = static_cast<float>(learning_rate * ratio)},
                    params_->All().subspan(offset + begin, count), gradient.subspan(begin, count),
                    {});
  });
}

}  // namespace paceline::train

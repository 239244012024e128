#include "train/parameter_average.h"

#include <algorithm>

#include <torch/torch.h>

#include "kernel/reduce.h"

namespace paceline::train {

namespace {

constexpr std::int64_t kElementsPerTask = 1 << 16;

void Move(std::vector<float>& average, std::span<const float> values, float weight) {
  at::parallel_for(0, static_cast<std::int64_t>(average.size()), kElementsPerTask,
                   [&](std::int64_t begin, std::int64_t end) {
                     const auto first = static_cast<std::size_t>(begin);
                     const auto count = static_cast<std::size_t>(end - begin);
                     kernel::MoveTowards(std::span(average).subspan(first, count),
                                         values.subspan(first, count), weight);
                   });
}

std::vector<float> CopyOf(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

ParameterAverage::ParameterAverage(double decay, FlatTensors& params, FlatTensors& buffers)
    : decay_(decay),
      params_(&params),
      buffers_(&buffers),
      params_average_(CopyOf(params.All())),
      buffers_average_(CopyOf(buffers.All())) {}

void ParameterAverage::Update(std::uint64_t updates) {
  const auto n = static_cast<double>(updates);
  const auto weight = static_cast<float>(1 - std::min(decay_, (1 + n) / (10 + n)));
  Move(params_average_, params_->All(), weight);
  Move(buffers_average_, buffers_->All(), weight);
}

void ParameterAverage::Swap() {
  std::ranges::swap_ranges(params_average_, params_->All());
  std::ranges::swap_ranges(buffers_average_, buffers_->All());
}

}  // namespace paceline::train

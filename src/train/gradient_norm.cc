#include "train/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "kernel/reduce.h"

namespace paceline::train {

Result<double> GradientNorm(std::span<const std::span<float>> tensors, collective::Engine* group) {
  const std::size_t workers = group != nullptr ? group->world() : 1;
  const std::size_t self = group != nullptr ? group->rank().value() : 0;
  std::size_t elements = 0;
  for (const std::span<float> tensor : tensors) elements += tensor.size();
  std::vector<std::size_t> owners;
  std::vector<double> squares(workers * tensors.size());  // by worker, then tensor
  std::size_t before = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t middle = before + tensors[i].size() / 2;
    owners.push_back(std::min(workers - 1, middle * workers / std::max<std::size_t>(1, elements)));
    if (owners[i] == self) squares[self * tensors.size() + i] = kernel::SquaredNorm(tensors[i]);
    before += tensors[i].size();
  }
  if (workers > 1) PACELINE_TRY(group->AllGather(std::as_writable_bytes(std::span(squares))));
  double sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) sum += squares[owners[i] * tensors.size() + i];
  return std::sqrt(sum);
}

}  // namespace paceline::train

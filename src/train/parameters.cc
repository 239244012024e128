#include "train/parameters.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "kernel/hash.h"

namespace paceline::train {

namespace {

constexpr std::size_t kAlignment = 16;  // floats in a cache line

}  // namespace

FlatTensors::FlatTensors(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::size_t total = 0;
  for (const auto& item : tensors) {
    PACELINE_CHECK(item.value().scalar_type() == torch::kFloat, "parameters are 32-bit floats");
    const auto count = static_cast<std::size_t>(item.value().numel());
    ranges_.push_back({item.key(), item.value().sizes().vec(), total, count});
    total += (count + kAlignment - 1) / kAlignment * kAlignment;
  }
  storage_ = torch::zeros({static_cast<std::int64_t>(total)});
  for (const NamedRange& range : ranges_) {
    torch::Tensor tensor = tensors[range.name];
    const torch::Tensor view = ViewOf(range);
    view.copy_(tensor);
    tensor.set_data(view);
  }
}

torch::Tensor FlatTensors::ViewOf(const NamedRange& range) const {
  return storage_
      .narrow(0, static_cast<std::int64_t>(range.offset), static_cast<std::int64_t>(range.count))
      .view(range.shape);
}

void FlatTensors::MoveTo(std::span<float> memory, std::span<torch::Tensor> tensors, Values values) {
  PACELINE_CHECK(memory.size() == All().size() && tensors.size() == ranges_.size(),
                 "room for these tensors");
  const torch::NoGradGuard no_grad;
  if (values == Values::kBring) std::ranges::copy(All(), memory.begin());
  storage_ = torch::from_blob(memory.data(), {static_cast<std::int64_t>(memory.size())});
  for (std::size_t i = 0; i < ranges_.size(); ++i) tensors[i].set_data(ViewOf(ranges_[i]));
}

FlatTensors FlatTensors::OfParameters(torch::nn::Module& module) {
  return FlatTensors(module.named_parameters());
}

FlatTensors FlatTensors::OfBuffers(torch::nn::Module& module) {
  return FlatTensors(module.named_buffers());
}

std::span<float> FlatTensors::All() {
  return {storage_.data_ptr<float>(), static_cast<std::size_t>(storage_.numel())};
}

std::span<const float> FlatTensors::All() const {
  return {storage_.data_ptr<float>(), static_cast<std::size_t>(storage_.numel())};
}

std::size_t FlatTensors::ElementCount() const {
  std::size_t count = 0;
  for (const NamedRange& range : ranges_) count += range.count;
  return count;
}

std::string FlatTensors::HashOf(std::span<const float> values) const {
  kernel::Hasher hasher;
  for (const NamedRange& range : ranges_) {
    hasher.Update(fmt::format("{}[{}]", range.name, fmt::join(range.shape, ",")));
    hasher.Update(std::as_bytes(values.subspan(range.offset, range.count)));
  }
  return hasher.Hex();
}

}  // namespace paceline::train

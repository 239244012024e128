#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace paceline::train {

// One tensor of the model inside a flat buffer.
struct NamedRange {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  // in floats; a multiple of 16, so that tensors start on a cache line
  std::size_t count = 0;
};

// Moves the tensors of a module into one flat, aligned buffer and leaves the module with views on
// it. What copies, hashes or saves the state then works on plain spans. The module must outlive
// nothing here: the buffer is shared by both. Thread-compatible.
class FlatTensors {
 public:
  // All trainable parameters, in the module's order.
  static FlatTensors OfParameters(torch::nn::Module& module);
  // All buffers (running statistics), in the module's order.
  static FlatTensors OfBuffers(torch::nn::Module& module);

  const std::vector<NamedRange>& ranges() const { return ranges_; }
  // Lays everything into `memory`, as long as All(), which outlives this and the module. `tensors`
  // are the module's, in its order. With kTake the values are those that are there already.
  enum class Values { kBring, kTake };
  void MoveTo(std::span<float> memory, std::span<torch::Tensor> tensors, Values values);

  std::span<float> All();
  std::span<const float> All() const;
  std::span<float> Of(const NamedRange& range) { return All().subspan(range.offset, range.count); }
  std::span<const float> Of(const NamedRange& range) const {
    return All().subspan(range.offset, range.count);
  }
  std::size_t ElementCount() const;  // without the padding

  // Hash of names, shapes and bits; the same whatever the padding.
  std::string Hash() const { return HashOf(All()); }
  // The same for other values in this layout.
  std::string HashOf(std::span<const float> values) const;

 private:
  explicit FlatTensors(const torch::OrderedDict<std::string, torch::Tensor>& tensors);

  torch::Tensor ViewOf(const NamedRange& range) const;

  torch::Tensor storage_;
  std::vector<NamedRange> ranges_;
};

}  // namespace paceline::train

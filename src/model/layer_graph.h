#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/catalog.h"

namespace paceline::model {

enum class LayerKind {
  kConv,
  kTransposedConv,
  kNorm,           // batch norm
  kSqueezeExcite,  // Hu et al. 2018: channels weighted by two small layers on their means
  kMaxPool,
  kMeanPool,  // over the whole image
  kFlatten,   // to one row, channel by channel
  kLinear,
  kDropout,
};

enum class Activation { kNone, kRelu, kRelu6 };

// The size of one sample between layers; rows of numbers are images of one pixel.
struct ImageSize {
  std::int64_t channels = 0, height = 1, width = 1;

  std::int64_t Elements() const { return channels * height * width; }
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// Names a value of a graph: 0 is the input, layer i makes value i + 1.
using ValueId = std::size_t;

struct Layer {
  LayerKind kind = LayerKind::kConv;
  std::string name;  // dotted, of the module that holds its parameters; empty: it has none
  ValueId input = 0;
  ValueId addend = 0;  // added before the activation; 0: nothing
  Activation activation = Activation::kNone;
  ImageSize in, out;

  std::int64_t kernel = 1, stride = 1, padding = 0;  // of convolutions and pools
  std::int64_t groups = 1;                           // of convolutions
  bool bias = true;                                  // of convolutions
  std::int64_t reduced = 0;                          // channels inside a squeeze-excite
  float dropout = 0;

  // Trainable tensors by their full names, a weight before its bias.
  std::vector<TensorSpec> Parameters() const;
  // Of one sample; a multiply-add counts as two. Only convolutions and linear layers count.
  std::int64_t ForwardFlops() const;
  bool Depthwise() const { return groups > 1 && groups == in.channels && groups == out.channels; }
};

// A feed-forward network of images, in the order of computation: model cards are added up from it,
// and src/train computes it. Its last value is the output.
struct LayerGraph {
  ImageSize input;
  std::vector<Layer> layers;

  const ImageSize& SizeOf(ValueId value) const {
    return value == 0 ? input : layers[value - 1].out;
  }
  // Whether it takes images of other sizes than `input`: their means are what its last layers see.
  bool TakesAnySize() const;
};

struct ConvSpec {
  std::int64_t kernel = 3, stride = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// Adds layers one by one; each returns the value that it makes, which the next ones may take. Sizes
// follow from the input's. Convolutions are padded so that a stride of 1 keeps the size.
class GraphBuilder {
 public:
  explicit GraphBuilder(const ImageSize& input) { graph_.input = input; }

  ValueId Conv(ValueId input, const std::string& name, std::int64_t channels, const ConvSpec& spec,
               Activation activation = Activation::kNone);
  // Each side grows by the stride.
  ValueId TransposedConv(ValueId input, const std::string& name, std::int64_t channels,
                         std::int64_t stride, Activation activation);
  ValueId Norm(ValueId input, const std::string& name, Activation activation, ValueId addend = 0);
  ValueId SqueezeExcite(ValueId input, const std::string& name, std::int64_t reduced,
                        ValueId addend);
  ValueId MaxPool(ValueId input, std::int64_t kernel, std::int64_t stride, std::int64_t padding);
  ValueId MeanPool(ValueId input);
  ValueId Flatten(ValueId input);
  ValueId Linear(ValueId input, const std::string& name, std::int64_t outputs,
                 Activation activation = Activation::kNone);
  ValueId Dropout(ValueId input, float probability);

  std::int64_t ChannelsOf(ValueId value) const { return graph_.SizeOf(value).channels; }
  LayerGraph Take() { return std::move(graph_); }

 private:
  Layer& Add(LayerKind kind, ValueId input, const std::string& name = {});
  ValueId Last() const { return graph_.layers.size(); }

  LayerGraph graph_;
};

}  // namespace paceline::model

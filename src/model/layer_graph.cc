#include "model/layer_graph.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::model {

std::vector<TensorSpec> Layer::Parameters() const {
  const auto pair = [](const std::string& of, std::vector<std::int64_t> weight,
                       std::int64_t outputs) {
    return std::vector<TensorSpec>{{of + ".weight", std::move(weight)}, {of + ".bias", {outputs}}};
  };
  switch (kind) {
    case LayerKind::kConv: {
      auto tensors = pair(name, {out.channels, in.channels / groups, kernel, kernel}, out.channels);
      if (!bias) tensors.pop_back();
      return tensors;
    }
    case LayerKind::kTransposedConv:
      return pair(name, {in.channels, out.channels, kernel, kernel}, out.channels);
    case LayerKind::kNorm: return pair(name, {out.channels}, out.channels);
    case LayerKind::kSqueezeExcite: {
      auto tensors = pair(name + ".fc1", {reduced, in.channels}, reduced);
      for (TensorSpec& tensor : pair(name + ".fc2", {in.channels, reduced}, in.channels)) {
        tensors.push_back(std::move(tensor));
      }
      return tensors;
    }
    case LayerKind::kLinear: return pair(name, {out.channels, in.channels}, out.channels);
    case LayerKind::kMaxPool:
    case LayerKind::kMeanPool:
    case LayerKind::kFlatten:
    case LayerKind::kDropout: break;
  }
  return {};
}

bool LayerGraph::TakesAnySize() const {
  const auto has = [this](LayerKind kind) {
    return std::ranges::find(layers, kind, &Layer::kind) != layers.end();
  };
  return has(LayerKind::kMeanPool) && !has(LayerKind::kFlatten);
}

std::int64_t Layer::ForwardFlops() const {
  const std::int64_t taps = kernel * kernel;
  switch (kind) {
    case LayerKind::kConv: return 2 * taps * in.channels / groups * out.Elements();
    case LayerKind::kTransposedConv: return 2 * taps * in.Elements() * out.channels;
    case LayerKind::kSqueezeExcite: return 2 * 2 * in.channels * reduced;
    case LayerKind::kLinear: return 2 * in.channels * out.channels;
    case LayerKind::kNorm:
    case LayerKind::kMaxPool:
    case LayerKind::kMeanPool:
    case LayerKind::kFlatten:
    case LayerKind::kDropout: break;
  }
  return 0;
}

Layer& GraphBuilder::Add(LayerKind kind, ValueId input, const std::string& name) {
  PACELINE_CHECK(input <= Last(), "a layer takes what was made before it");
  const ImageSize size = graph_.SizeOf(input);
  return graph_.layers.emplace_back(
      Layer{.kind = kind, .name = name, .input = input, .in = size, .out = size});
}

ValueId GraphBuilder::Conv(ValueId input, const std::string& name, std::int64_t channels,
                           const ConvSpec& spec, Activation activation) {
  Layer& layer = Add(LayerKind::kConv, input, name);
  layer.kernel = spec.kernel;
  layer.stride = spec.stride;
  layer.padding = (spec.kernel - 1) / 2;
  layer.groups = spec.groups;
  layer.bias = spec.bias;
  layer.activation = activation;
  const auto shrink = [&](std::int64_t size) {
    return (size + 2 * layer.padding - layer.kernel) / layer.stride + 1;
  };
  layer.out = {channels, shrink(layer.in.height), shrink(layer.in.width)};
  return Last();
}

ValueId GraphBuilder::TransposedConv(ValueId input, const std::string& name, std::int64_t channels,
                                     std::int64_t stride, Activation activation) {
  Layer& layer = Add(LayerKind::kTransposedConv, input, name);
  layer.kernel = 3;
  layer.stride = stride;
  layer.padding = 1;
  layer.activation = activation;
  layer.out = {channels, layer.in.height * stride, layer.in.width * stride};
  return Last();
}

ValueId GraphBuilder::Norm(ValueId input, const std::string& name, Activation activation,
                           ValueId addend) {
  Layer& layer = Add(LayerKind::kNorm, input, name);
  layer.activation = activation;
  layer.addend = addend;
  PACELINE_CHECK(addend == 0 || graph_.SizeOf(addend) == layer.out, "an addend of the same size");
  return Last();
}

ValueId GraphBuilder::SqueezeExcite(ValueId input, const std::string& name, std::int64_t reduced,
                                    ValueId addend) {
  Layer& layer = Add(LayerKind::kSqueezeExcite, input, name);
  layer.reduced = reduced;
  layer.activation = Activation::kRelu;
  layer.addend = addend;
  PACELINE_CHECK(graph_.SizeOf(addend) == layer.out, "an addend of the same size");
  return Last();
}

ValueId GraphBuilder::MaxPool(ValueId input, std::int64_t kernel, std::int64_t stride,
                              std::int64_t padding) {
  Layer& layer = Add(LayerKind::kMaxPool, input);
  layer.kernel = kernel;
  layer.stride = stride;
  layer.padding = padding;
  const auto shrink = [&](std::int64_t size) { return (size + 2 * padding - kernel) / stride + 1; };
  layer.out = {layer.in.channels, shrink(layer.in.height), shrink(layer.in.width)};
  return Last();
}

ValueId GraphBuilder::MeanPool(ValueId input) {
  Layer& layer = Add(LayerKind::kMeanPool, input);
  layer.out = {layer.in.channels, 1, 1};
  return Last();
}

ValueId GraphBuilder::Flatten(ValueId input) {
  Layer& layer = Add(LayerKind::kFlatten, input);
  layer.out = {layer.in.Elements(), 1, 1};
  return Last();
}

ValueId GraphBuilder::Linear(ValueId input, const std::string& name, std::int64_t outputs,
                             Activation activation) {
  Layer& layer = Add(LayerKind::kLinear, input, name);
  PACELINE_CHECK(layer.in.height == 1 && layer.in.width == 1, "rows of numbers");
  layer.activation = activation;
  layer.out = {outputs, 1, 1};
  return Last();
}

ValueId GraphBuilder::Dropout(ValueId input, float probability) {
  Add(LayerKind::kDropout, input).dropout = probability;
  return Last();
}

}  // namespace paceline::model

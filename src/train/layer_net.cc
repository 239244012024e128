#include "train/layer_net.h"

#include <cmath>
#include <sstream>
#include <utility>

#include "train/pixel_ops.h"

namespace paceline::train {

using model::Activation;
using model::Layer;
using model::LayerKind;
using model::ValueId;

namespace {

// Holds layers under their names.
struct NamedLayers : torch::nn::Module {};

// Up to so many pixels of output a convolution is faster as one matrix product than by oneDNN, and
// its windows are small. Forward and backward of batch 64 on one core (AVX2): 4x4 pixels with 128
// channels 13 against 16 ms, 2x2 with 256 12 against 27, 8x8 with 64 16 against 13.
constexpr std::int64_t kMostWindows = 16;

bool AsMatrixProduct(const Layer& layer) {
  return layer.groups == 1 &&
         (layer.kernel == 1 || layer.out.height * layer.out.width <= kMostWindows);
}

// Between channels side by side, ours, and channel by channel, PyTorch's. Views.
torch::Tensor ToTorch(const torch::Tensor& images) { return images.permute({0, 3, 1, 2}); }
torch::Tensor ToPixels(const torch::Tensor& images) { return images.permute({0, 2, 3, 1}); }

torch::Tensor Activate(torch::Tensor x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x.relu_();
    case Activation::kRelu6: return torch::hardtanh_(x, 0, 6);
  }
  return x;
}

kernel::Gate GateOf(Activation activation) {
  switch (activation) {
    case Activation::kNone: return kernel::Gate::kNone;
    case Activation::kRelu: return kernel::Gate::kRelu;
    case Activation::kRelu6: return kernel::Gate::kRelu6;
  }
  return kernel::Gate::kNone;
}

struct ConvTensors {
  const torch::Tensor &weight, &bias;
  torch::Tensor weight_gradient;  // its place; undefined: anywhere
};

torch::Tensor Convolution(const Layer& layer, const torch::Tensor& x, const ConvTensors& tensors) {
  const auto& [weight, bias, weight_gradient] = tensors;
  const bool depthwise = layer.Depthwise();
  if (depthwise || AsMatrixProduct(layer)) {
    const ConvSteps steps{layer.stride, layer.padding, weight_gradient};
    const torch::Tensor y =
        depthwise ? DepthwiseConv(x, weight, steps) : WindowConv(x, weight, steps);
    return bias.defined() ? y + bias : y;
  }
  const std::vector<std::int64_t> stride(2, layer.stride), padding(2, layer.padding);
  return ToPixels(torch::convolution(ToTorch(x), weight, bias, stride, padding,
                                     /*dilation=*/{1, 1}, /*transposed=*/false,
                                     /*output_padding=*/{0, 0}, layer.groups));
}

torch::Tensor TransposedConvolution(const Layer& layer, const torch::Tensor& x,
                                    const torch::Tensor& weight, const torch::Tensor& bias) {
  const std::vector<std::int64_t> stride(2, layer.stride), padding(2, layer.padding),
      beyond(2, layer.stride - 1);  // so that each side grows by exactly the stride
  return ToPixels(torch::convolution(ToTorch(x), weight, bias, stride, padding,
                                     /*dilation=*/{1, 1}, /*transposed=*/true, beyond,
                                     /*groups=*/1))
      .contiguous();
}

// Of uniform initial weights. He et al. 2015 before a ReLU: variance 2 / fan_in; Glorot and Bengio
// 2010 else.
double InitialBound(const Layer& layer) {
  const auto taps = static_cast<double>(layer.kernel * layer.kernel);
  const auto in = static_cast<double>(layer.in.channels),
             out = static_cast<double>(layer.out.channels);
  switch (layer.kind) {
    case LayerKind::kConv: return std::sqrt(6.0 * static_cast<double>(layer.groups) / (taps * in));
    case LayerKind::kTransposedConv:
      return std::sqrt(6.0 * static_cast<double>(layer.stride * layer.stride) / (taps * in));
    case LayerKind::kLinear:
      return std::sqrt(6.0 / (layer.activation == Activation::kNone ? in + out : in));
    default: return std::sqrt(6.0 / (in + static_cast<double>(layer.reduced)));
  }
}

}  // namespace

LayerNet::LayerNet(const model::LayerGraph& graph, std::uint64_t seed)
    : input_(graph.input),
      any_size_(graph.TakesAnySize()),
      nodes_(graph.layers.size()),
      seed_(seed) {
  const torch::NoGradGuard no_grad;
  std::vector<std::size_t> last_use(nodes_.size() + 1);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    node.layer = graph.layers[i];
    MakeParameters(node);
    last_use[node.layer.input] = i;
    if (node.layer.addend != 0) last_use[node.layer.addend] = i;
    Node* const before = i > 0 ? &nodes_[i - 1] : nullptr;
    if (node.layer.kind == LayerKind::kNorm && before != nullptr && node.layer.input == i &&
        before->layer.kind == LayerKind::kConv) {
      node.bias_before = std::exchange(before->main.bias, torch::Tensor());
    }
  }
  for (ValueId value = 0; value < nodes_.size(); ++value) {
    nodes_[last_use[value]].done.push_back(value);
  }
}

torch::nn::Module& LayerNet::ModuleAt(const std::string& path) {
  torch::nn::Module* module = this;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '.');) {
    const auto children = module->named_children();
    auto* const found = children.find(part);
    module = found != nullptr
                 ? found->get()
                 : module->register_module(part, std::make_shared<NamedLayers>()).get();
  }
  return *module;
}

LayerNet::Affine LayerNet::MakeAffine(const std::vector<model::TensorSpec>& tensors,
                                      std::size_t first, double bound) {
  const std::string& name = tensors[first].name;
  torch::nn::Module& module = ModuleAt(name.substr(0, name.rfind('.')));
  Affine affine;
  affine.weight = module.register_parameter("weight", torch::empty(tensors[first].shape));
  InitUniform(affine.weight, bound, seed_, tensors_++);
  if (first + 1 < tensors.size()) {
    affine.bias = module.register_parameter("bias", torch::zeros(tensors[first + 1].shape));
    ++tensors_;
  }
  return affine;
}

void LayerNet::MakeParameters(Node& node) {
  const std::vector<model::TensorSpec> tensors = node.layer.Parameters();
  if (tensors.empty()) return;
  if (node.layer.kind == LayerKind::kNorm) {
    torch::nn::Module& module = ModuleAt(node.layer.name);
    const std::vector<std::int64_t>& shape = tensors[0].shape;
    node.norm = {module.register_parameter("weight", torch::ones(shape)),
                 module.register_parameter("bias", torch::zeros(shape)),
                 module.register_buffer("running_mean", torch::zeros(shape)),
                 module.register_buffer("running_var", torch::ones(shape))};
    tensors_ += 2;
    return;
  }
  node.main = MakeAffine(tensors, 0, InitialBound(node.layer));
  if (tensors.size() > 2) node.second = MakeAffine(tensors, 2, InitialBound(node.layer));
}

torch::Tensor LayerNet::Run(const Node& node, const torch::Tensor& x, const torch::Tensor& addend,
                            const ForwardContext& context, std::uint64_t number) const {
  const Layer& layer = node.layer;
  const auto& [weight, bias] = node.main;
  context.Await(weight, bias, node.second.weight, node.second.bias, node.norm.gamma, node.norm.beta,
                node.bias_before);
  switch (layer.kind) {
    case LayerKind::kConv:
      return Activate(Convolution(layer, x, {weight, bias, context.PlaceOf(weight)}),
                      layer.activation);
    case LayerKind::kTransposedConv:
      return Activate(TransposedConvolution(layer, x, weight, bias), layer.activation);
    case LayerKind::kNorm:
      return NormAddGate({x, node.bias_before, addend}, node.norm, GateOf(layer.activation),
                         context);
    case LayerKind::kSqueezeExcite: {
      const torch::Tensor hidden = torch::linear(x.mean({1, 2}), weight, bias).relu_();
      const torch::Tensor factors =
          torch::linear(hidden, node.second.weight, node.second.bias).sigmoid();
      const torch::Tensor y = torch::addcmul(addend, x, factors.view({x.size(0), 1, 1, -1}));
      return Activate(y, layer.activation);
    }
    case LayerKind::kMaxPool:
      return ToPixels(torch::max_pool2d(ToTorch(x), layer.kernel, layer.stride, layer.padding));
    case LayerKind::kMeanPool: return x.mean({1, 2});
    case LayerKind::kFlatten: return ToTorch(x).flatten(1);
    case LayerKind::kLinear: return Activate(torch::linear(x, weight, bias), layer.activation);
    case LayerKind::kDropout: return Dropout(x, layer.dropout, context, number);
  }
  return x;
}

Tensors LayerNet::Forward(const Tensors& batch, const ForwardContext& context) {
  const torch::Tensor& images = batch[0];
  TORCH_CHECK(
      images.dim() == 4 && images.size(1) == input_.channels &&
          (any_size_ || (images.size(2) == input_.height && images.size(3) == input_.width)),
      "the model takes images of ", input_.channels, "x", input_.height, "x", input_.width,
      ", the data has ", images.sizes());
  std::vector<torch::Tensor> values(nodes_.size() + 1);
  values[0] = ToPixels(images).contiguous();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const ValueId addend = node.layer.addend;
    values[i + 1] = Run(node, values[node.layer.input],
                        addend == 0 ? torch::Tensor() : values[addend], context, i);
    for (const ValueId value : node.done) values[value].reset();
  }
  torch::Tensor& output = values.back();
  return {output.dim() == 4 ? ToTorch(output) : output};
}

}  // namespace paceline::train

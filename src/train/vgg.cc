#include "train/vgg.h"

#include <cmath>

namespace paceline::train {

namespace {

// Holds numbered layers, so that names come out as "features.0.weight".
struct NumberedLayers : torch::nn::Module {};

// Batch norm without PyTorch's batch counter, which only matters for cumulative averages.
struct NormState : torch::nn::Module {
  explicit NormState(std::int64_t channels) {
    weight = register_parameter("weight", torch::ones({channels}));
    bias = register_parameter("bias", torch::zeros({channels}));
    running_mean = register_buffer("running_mean", torch::zeros({channels}));
    running_var = register_buffer("running_var", torch::ones({channels}));
  }
  torch::Tensor weight, bias, running_mean, running_var;
};

}  // namespace

class Vgg::Section {
 public:
  Section(Vgg& vgg, const char* name, std::uint64_t seed, std::uint64_t& tensors)
      : container_(vgg.register_module(name, std::make_shared<NumberedLayers>())),
        seed_(seed),
        tensors_(tensors) {}

  void Skip(int layers) { layer_ += layers; }

  // He et al. 2015: variance 2 / fan_in, as Fluid's default for convolutions. Uniform instead of
  // normal: the same variance at a tenth of the cost.
  torch::nn::Conv2d Conv(std::int64_t in, std::int64_t out) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(in, out, 3).padding(1));
    Init(conv->weight, conv->bias, std::sqrt(6.0 / static_cast<double>(9 * in)));
    return Register(conv);
  }

  // Xavier (Glorot and Bengio 2010), Fluid's default for fully connected layers.
  torch::nn::Linear Linear(std::int64_t in, std::int64_t out) {
    torch::nn::Linear linear(in, out);
    Init(linear->weight, linear->bias, std::sqrt(6.0 / static_cast<double>(in + out)));
    return Register(linear);
  }

  void Norm(std::int64_t channels, Block& block) {
    auto norm = Register(std::make_shared<NormState>(channels));
    block.norm = {norm->weight, norm->bias, norm->running_mean, norm->running_var};
    tensors_ += 2;
  }

 private:
  template <typename Layer>
  Layer Register(Layer layer) {
    container_->register_module(std::to_string(layer_++), layer);
    return layer;
  }

  void Init(torch::Tensor weight, torch::Tensor bias, double bound) {
    const torch::NoGradGuard no_grad;
    InitUniform(weight, bound, seed_, tensors_);
    bias.zero_();
    tensors_ += 2;
  }

  std::shared_ptr<NumberedLayers> container_;
  std::uint64_t seed_;
  std::uint64_t& tensors_;
  int layer_ = 0;
};

Vgg::Vgg(const model::VggSpec& spec, std::uint64_t seed)
    : classifier_dropout_(spec.classifier_dropout) {
  std::uint64_t tensors = 0;
  Section features(*this, "features", seed, tensors);
  std::int64_t channels = 3, size = spec.image_size;
  for (const auto& group : spec.groups) {
    for (const model::VggSpec::Conv& conv : group) {
      Block block;
      block.conv = features.Conv(channels, conv.channels);
      features.Norm(conv.channels, block);
      features.Skip(conv.dropout > 0 ? 2 : 1);  // ReLU, dropout
      block.dropout = conv.dropout;
      convolutions_.push_back(block);
      channels = conv.channels;
    }
    convolutions_.back().pool_after = true;
    features.Skip(1);  // pool
    size /= 2;
  }
  Section classifier(*this, "classifier", seed, tensors);
  classifier.Skip(1);  // dropout
  hidden_.linear = classifier.Linear(channels * size * size, spec.fully_connected);
  classifier.Norm(spec.fully_connected, hidden_);
  hidden_.dropout = spec.classifier_dropout;
  classifier.Skip(2);  // ReLU, dropout
  second_ = classifier.Linear(spec.fully_connected, spec.fully_connected);
  last_ = classifier.Linear(spec.fully_connected, spec.classes);
}

Tensors Vgg::Forward(const Tensors& batch, const ForwardContext& context) {
  std::uint64_t layer = 0;
  torch::Tensor x = batch[0];
  const auto await = [&](const auto& affine, const NormTensors& norm) {
    context.Await(affine->weight, affine->bias, norm.gamma, norm.beta);
  };
  for (Block& block : convolutions_) {
    await(block.conv, block.norm);
    x = NormReluDropout(block.conv->forward(x), block.norm, block.dropout, context, layer++);
    if (block.pool_after) x = at::max_pool2d(x, {2, 2});
  }
  x = Dropout(x.flatten(1), classifier_dropout_, context, layer++);
  await(hidden_.linear, hidden_.norm);
  x = NormReluDropout(hidden_.linear->forward(x), hidden_.norm, hidden_.dropout, context, layer++);
  await(second_, NormTensors{});
  x = second_->forward(x);
  await(last_, NormTensors{});
  return {last_->forward(x)};
}

}  // namespace paceline::train

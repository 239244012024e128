#include "train/script_network.h"

#include <fmt/format.h>
#include <torch/script.h>

#include "train/reconstruction.h"
#include "train/torch_guard.h"

namespace paceline::train {

namespace {

class ScriptNetwork final : public Network {
 public:
  explicit ScriptNetwork(torch::jit::Module module) : module_(std::move(module)) {
    for (const auto& parameter : module_.named_parameters()) {
      RegisterUnder(*this, parameter.name, parameter.value, TensorRole::kParameter);
    }
    for (const auto& buffer : module_.named_buffers()) {
      if (buffer.value.scalar_type() != torch::kFloat) continue;
      RegisterUnder(*this, buffer.name, buffer.value, TensorRole::kBuffer);
    }
  }

  Tensors Forward(const Tensors& batch, const ForwardContext& context) override {
    if (module_.is_training() != context.training) module_.train(context.training);
    if (context.training) torch::manual_seed(context.dropout_key);
    const torch::jit::IValue output = module_.forward({batch[0]});
    if (output.isTuple()) return {output.toTupleRef().elements()[0].toTensor()};
    return {output.toTensor()};
  }

 private:
  torch::jit::Module module_;
};

// What the network makes of one sample decides what can be wanted of it.
Result<std::shared_ptr<const Objective>> ChooseObjective(Network& network,
                                                         const ScriptOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> shape = options.input_shape;
  shape.insert(shape.begin(), 2);  // batch norm may want more than one
  const torch::Tensor output = network.Forward({torch::zeros(shape)}, {})[0];
  if (options.loss == "mse") {
    if (output.sizes().vec() != shape) {
      return Status::Error(Code::kInvalidArgument,
                           fmt::format("--loss mse wants an output with the shape of the input; it "
                                       "has {} values instead of {}",
                                       output.numel() / 2, torch::zeros(shape).numel() / 2));
    }
    return std::shared_ptr<const Objective>(std::make_shared<Reconstruction>());
  }
  if (output.dim() != 2) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--loss cross-entropy wants logits [samples, classes]; the "
                                     "output has {} dimensions",
                                     output.dim()));
  }
  if (output.size(1) < options.classes) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("it has {} outputs for {} classes; --classes says how many the "
                    "data have",
                    output.size(1), options.classes));
  }
  return std::shared_ptr<const Objective>(
      std::make_shared<Classification>(output.size(1), options.label_smoothing));
}

}  // namespace

Result<BuiltModel> LoadScript(const std::string& path, const ScriptOptions& options) {
  auto built = TorchGuard([&]() -> Result<BuiltModel> {
    BuiltModel model;
    model.network = std::make_shared<ScriptNetwork>(torch::jit::load(path));
    PACELINE_ASSIGN(model.objective, ChooseObjective(*model.network, options));
    return model;
  });
  if (built.ok()) return built;
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("{}: {}", path, built.status().message()));
}

}  // namespace paceline::train

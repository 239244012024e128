// Modules that are not of the catalogue, and parameters that come from files.
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "base/clock.h"
#include "disk/checkpoint_writer.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "train/initial_values.h"
#include "train/reconstruction.h"
#include "train/script_network.h"
#include "train/wrapped_module.h"

namespace paceline::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using testing::TempDir;

struct Inner : torch::nn::Module {
  Inner() { linear = register_module("linear", torch::nn::Linear(3, 4)); }
  torch::nn::Linear linear{nullptr};
};

struct Small : torch::nn::Module {
  Small() {
    body = register_module("body", std::make_shared<Inner>());
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    head = register_module("head", torch::nn::Linear(4, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    return head->forward(
        torch::dropout(norm->forward(body->linear->forward(x)), 0.5, is_training()));
  }
  std::shared_ptr<Inner> body;
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear head{nullptr};
};

std::vector<std::string> Names(const FlatTensors& tensors) {
  std::vector<std::string> names;
  for (const NamedRange& range : tensors.ranges()) names.push_back(range.name);
  return names;
}

std::unique_ptr<Trainer> MakeTrainer() {
  torch::manual_seed(1);
  return Trainer::Create(Classifier(std::make_shared<Small>(), 2), {}, SystemClock()).value();
}

TEST(WrappedModule, KeepsNamesAndLeavesCountersOut) {
  const auto trainer = MakeTrainer();
  EXPECT_THAT(Names(trainer->params()),
              ElementsAre("body.linear.weight", "body.linear.bias", "norm.weight", "norm.bias",
                          "head.weight", "head.bias"));
  EXPECT_THAT(Names(trainer->buffers()), ElementsAre("norm.running_mean", "norm.running_var"));
}

TEST(WrappedModule, DropoutIsAFunctionOfTheContext) {
  const BuiltModel model = Classifier(std::make_shared<Small>(), 2);
  const Tensors batch{torch::ones({8, 3}) + torch::arange(8).view({8, 1})};
  const auto run = [&](std::uint64_t key) {
    return model.network->Forward(batch, {.training = true, .dropout_key = key})[0];
  };
  const torch::Tensor first = run(5);
  EXPECT_TRUE(torch::equal(first, run(5)));
  EXPECT_FALSE(torch::equal(first, run(6)));
}

// Writes all of a trainer's parameters but those that `change` removes; it may add some.
void WriteParameters(Trainer& trainer, const TempDir& dir,
                     const std::function<void(std::vector<disk::TensorView>&)>& change) {
  disk::PosixFileSystem fs;
  std::vector<disk::TensorView> tensors;
  for (const NamedRange& range : trainer.params().ranges()) {
    tensors.push_back({range.name, wire::DType::kF32, range.shape,
                       std::as_bytes(std::span<const float>(trainer.params().Of(range)))});
  }
  change(tensors);
  ASSERT_THAT(disk::WriteTensors(fs, dir.path(), {"in.safetensors", tensors}), IsOk());
}

TEST(InitialValues, AreTakenByName) {
  const TempDir dir;
  const auto from = MakeTrainer();
  std::ranges::fill(from->params().All(), 0.25F);
  const float extra = 1;
  WriteParameters(*from, dir, [&](auto& tensors) {
    tensors.push_back({"other", wire::DType::kF32, {1}, std::as_bytes(std::span(&extra, 1))});
  });
  const auto trainer = MakeTrainer();
  disk::PosixFileSystem fs;
  const auto unused = TakeInitialValues(fs, dir / "in.safetensors", *trainer);
  ASSERT_THAT(unused, IsOk());
  EXPECT_THAT(*unused, ElementsAre("other"));
  for (const NamedRange& range : trainer->params().ranges()) {
    EXPECT_EQ(trainer->params().Of(range)[0], 0.25F) << range.name;
  }
}

TEST(InitialValues, MissingAndMisshapenTensorsAreNamed) {
  const auto from = MakeTrainer();
  disk::PosixFileSystem fs;
  {
    const TempDir dir;
    WriteParameters(*from, dir, [](auto& tensors) { tensors.pop_back(); });
    EXPECT_THAT(TakeInitialValues(fs, dir / "in.safetensors", *from),
                StatusIs(Code::kBadData, HasSubstr("no tensor head.bias")));
  }
  {
    const TempDir dir;
    WriteParameters(*from, dir, [](auto& tensors) { tensors.front().shape = {3, 4}; });
    EXPECT_THAT(TakeInitialValues(fs, dir / "in.safetensors", *from),
                StatusIs(Code::kBadData, HasSubstr("body.linear.weight is F32 [3,4]")));
  }
  const TempDir dir;
  EXPECT_THAT(TakeInitialValues(fs, dir / "none", *from),
              StatusIs(Code::kNotFound, HasSubstr("none")));
  std::ofstream(dir / "text") << "no tensors at all";
  EXPECT_THAT(TakeInitialValues(fs, dir / "text", *from),
              StatusIs(Code::kBadData, HasSubstr("text")));
}

constexpr char kScript[] = R"(
def forward(self, x):
    return x.flatten(1).matmul(self.weight) + self.bias
)";

std::string SaveScript(const TempDir& dir, std::int64_t inputs) {
  torch::jit::Module module("m");
  module.register_parameter("weight", torch::ones({inputs, 3}), /*is_buffer=*/false);
  module.register_parameter("bias", torch::zeros({3}), /*is_buffer=*/false);
  module.define(kScript);
  module.save(dir / "net.pt");
  return dir / "net.pt";
}

TEST(Script, IsANetworkWithItsParameters) {
  const TempDir dir;
  const auto model = LoadScript(SaveScript(dir, 12), {.input_shape = {3, 2, 2}, .classes = 3});
  ASSERT_THAT(model, IsOk());
  const auto trainer = Trainer::Create(*model, {}, SystemClock()).value();
  EXPECT_THAT(Names(trainer->params()), ElementsAre("weight", "bias"));
  // What the trainer changes is what the script computes with.
  std::ranges::fill(trainer->params().All(), 2.0F);
  const Tensors out = model->network->Forward({torch::ones({1, 3, 2, 2})}, {});
  EXPECT_EQ(out[0][0][0].item<float>(), 26);
}

// Of outputs that are not all alike, with labels 0, 1, 2, 0, ...
double LossOf(const Objective& objective) {
  const torch::Tensor logits = torch::arange(12).view({4, 3}).to(torch::kFloat).square();
  return objective.Compute({logits}, {torch::zeros({4}), torch::arange(4) % 3}).sum.item<double>();
}

TEST(Script, LabelsAreSmoothedAsOfAModelOfTheCatalogue) {
  const TempDir dir;
  const std::string path = SaveScript(dir, 12);
  const auto loss = [&](double smoothing) {
    return LossOf(
        *LoadScript(path, {.input_shape = {3, 2, 2}, .classes = 3, .label_smoothing = smoothing})
             .value()
             .objective);
  };
  EXPECT_EQ(loss(0.1), LossOf(Classification(3, 0.1)));
  EXPECT_NE(loss(0.1), loss(0));
}

TEST(OwnObjective, TakesTheLabelSmoothingOfTheRun) {
  const auto built = [] { return Classifier(std::make_shared<Small>(), 3); };
  const auto smooth = WithLabelSmoothing(built(), 0.1);
  ASSERT_THAT(smooth, IsOk());
  EXPECT_EQ(LossOf(*smooth->objective), LossOf(Classification(3, 0.1)));
  EXPECT_EQ(LossOf(*WithLabelSmoothing(*smooth, 0).value().objective), LossOf(Classification(3)));
  BuiltModel other{built().network, std::make_shared<Reconstruction>()};
  EXPECT_EQ(WithLabelSmoothing(other, 0).value().objective, other.objective);
  EXPECT_THAT(WithLabelSmoothing(other, 0.1),
              StatusIs(Code::kInvalidArgument, HasSubstr("--label-smoothing goes with")));
}

TEST(Script, WhatDoesNotFitIsSaidInOneLine) {
  const TempDir dir;
  const std::string path = SaveScript(dir, 12);
  const auto expect = [&](const std::string& file, const char* loss,
                          std::vector<std::int64_t> shape, const char* why,
                          std::int64_t classes = 3) {
    const auto model = LoadScript(file, {.loss = loss, .input_shape = shape, .classes = classes});
    EXPECT_THAT(model, StatusIs(Code::kInvalidArgument, HasSubstr(why)));
    EXPECT_THAT(model.status().message(), HasSubstr(file));
    EXPECT_EQ(model.status().message().find('\n'), std::string::npos);
  };
  expect(path, "mse", {3, 2, 2}, "shape of the input");
  expect(path, "cross-entropy", {3, 4, 4}, "mat1 and mat2 shapes");
  expect(path, "cross-entropy", {3, 2, 2}, "it has 3 outputs for 4 classes", 4);
  std::ofstream(dir / "broken.pt") << "not a zip archive";
  expect(dir / "broken.pt", "cross-entropy", {3, 2, 2}, "torch");
}

}  // namespace
}  // namespace paceline::train

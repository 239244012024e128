#include "train/arriving_parameters.h"

#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "data/loader.h"
#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "train/random_text.h"
#include "train/wrapped_module.h"
#include "train/zoo.h"

namespace paceline::train {
namespace {

using testing::IsOk;
using testing::StatusIs;

constexpr std::size_t kReport = 2;

// A module, its values on a server, and a pull of them.
class ArrivingParametersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < dense_.size(); ++i) dense_[i] = static_cast<float>(i + 1);
  }

  // Of the parameters: weight and bias of the first layer, of the norm, of the last.
  std::size_t End(std::size_t parameter) const {
    std::size_t end = params_.ElementCount();
    for (std::size_t i = 0; i < parameter; ++i) end -= params_.ranges()[i].count;
    return end;
  }
  void Give(const ps::TakeDense& take, std::size_t begin, std::size_t end) const {
    take(begin, std::span(dense_).subspan(begin, end - begin));
  }

  torch::nn::Sequential module_{torch::nn::Linear(5, 7), torch::nn::Linear(7, 3)};
  FlatTensors params_ = FlatTensors::OfParameters(*module_);
  FlatTensors buffers_ = FlatTensors::OfBuffers(*module_);
  std::vector<float> report_ = std::vector<float>(kReport);
  ArrivingParameters arriving_{params_, buffers_, report_, SystemClock()};
  std::vector<float> dense_ = std::vector<float>(arriving_.floats());
};

// The rest of the pull comes only after the first layer was used.
TEST_F(ArrivingParametersTest, TheFirstLayerDoesNotWaitForTheLast) {
  std::promise<void> used;
  arriving_.Start([&](const ps::TakeDense& take) -> Status {
    const std::size_t first = End(2);
    Give(take, first, dense_.size());
    used.get_future().wait();
    Give(take, 1, first);
    Give(take, 0, 1);
    return {};
  });
  EXPECT_THAT(arriving_.AwaitRest(), IsOk());
  EXPECT_EQ(report_.back(), dense_.back());
  const std::vector<torch::Tensor> parameters = module_->parameters();
  arriving_.Await(parameters[0]);
  arriving_.Await(parameters[1].view({1, 7}));
  arriving_.Await(torch::ones({3}));  // no parameter
  arriving_.Await(torch::Tensor());
  EXPECT_EQ(parameters[1][0].item<float>(), dense_[End(2)]);
  used.set_value();
  arriving_.Await(parameters[2]);
  EXPECT_THAT(arriving_.AwaitAll(), IsOk());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto values = params_.Of(params_.ranges()[i]);
    for (std::size_t j = 0; j < values.size(); ++j) EXPECT_EQ(values[j], dense_[End(i + 1) + j]);
  }
  EXPECT_LE(arriving_.last_pull().started, arriving_.last_pull().finished);
}

TEST_F(ArrivingParametersTest, WhatDoesNotArriveIsAnErrorForWhoeverWaits) {
  arriving_.Start([&](const ps::TakeDense& take) -> Status {
    Give(take, End(1), dense_.size());
    return Status::Error(Code::kTimeout, "away");
  });
  arriving_.Await(module_->parameters()[0]);
  EXPECT_THROW(arriving_.Await(module_->parameters()[3]), std::runtime_error);
  EXPECT_THAT(arriving_.AwaitAll(), StatusIs(Code::kTimeout, "away"));
  EXPECT_THAT(arriving_.AwaitRest(), StatusIs(Code::kTimeout, "away"));
  arriving_.Start([&](const ps::TakeDense& take) -> Status {
    Give(take, 0, dense_.size());
    return {};
  });
  arriving_.Await(module_->parameters()[3]);
  EXPECT_THAT(arriving_.AwaitAll(), IsOk());
}

// Parameters are not numbers until somebody waits for them.
class Poisoned final : public ParameterGate {
 public:
  explicit Poisoned(FlatTensors& params)
      : params_(params), values_(params.All().begin(), params.All().end()) {
    std::ranges::fill(params.All(), std::numeric_limits<float>::quiet_NaN());
  }
  void Await(const at::Tensor& parameter) override {
    if (!parameter.defined()) return;
    for (const NamedRange& range : params_.ranges()) {
      if (params_.Of(range).data() != parameter.data_ptr<float>()) continue;
      const auto values = std::span(values_).subspan(range.offset, range.count);
      std::ranges::copy(values, params_.Of(range).begin());
    }
  }

 private:
  FlatTensors& params_;
  const std::vector<float> values_;
};

Tensors SamplesFor(const model::ModelCard& card) {
  if (card.vocabulary == 0) {
    std::vector<std::int64_t> shape = card.input_shape;
    shape.insert(shape.begin(), 2);
    return {
        torch::linspace(0, 1, 2 * card.input_shape[0] * card.input_shape[1] * card.input_shape[2])
            .view(shape)};
  }
  const RandomText source(card);
  auto batches = data::EvalBatches::Create(source, 2);
  Tensors samples;
  for (const torch::Tensor& tensor : AsTensors(**batches->Next()))
    samples.push_back(tensor.clone());
  return samples;
}

TEST(AwaitsParameters, EveryModelOfTheZooWaitsForAllThatItUses) {
  const torch::NoGradGuard no_grad;
  for (const model::ModelCard& card : model::Catalog()) {
    constexpr std::int64_t kLarge = 60'000'000;  // another size of a network that is here
    if (card.Fused() || card.ParameterCount() > kLarge) continue;
    SCOPED_TRACE(card.name);
    const auto model = BuildModel(card.name, 1);
    ASSERT_THAT(model, IsOk());
    EXPECT_TRUE(model->network->AwaitsParameters());
    FlatTensors params = FlatTensors::OfParameters(*model->network);
    const Tensors samples = SamplesFor(card);
    ForwardContext context{.training = true, .dropout_key = 5};
    Tensors expected = model->network->Forward(samples, context);
    for (torch::Tensor& output : expected) output = output.clone();
    Poisoned gate(params);
    context.gate = &gate;
    const Tensors outputs = model->network->Forward(samples, context);
    ASSERT_EQ(outputs.size(), expected.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(torch::equal(outputs[i], expected[i])) << "output " << i;
    }
  }
}

TEST(AwaitsParameters, AModuleOfOnesOwnHasThemAllBeforeItBegins) {
  const auto model = Classifier(std::make_shared<torch::nn::LinearImpl>(4, 3), 3);
  EXPECT_FALSE(model.network->AwaitsParameters());
}

}  // namespace
}  // namespace paceline::train

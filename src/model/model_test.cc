#include <set>

#include <gmock/gmock.h>

#include "model/catalog.h"
#include "model/vgg_spec.h"
#include "testing/status_matchers.h"

namespace paceline::model {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(Vgg16, HasTheParametersOfTheReference) {
  const auto card = FindModel("vgg16");
  ASSERT_THAT(card, IsOk());
  EXPECT_EQ((*card)->ParameterCount(), 15'254'602);
  EXPECT_EQ((*card)->TensorCount(), 60);
  EXPECT_EQ((*card)->parameters.front().name, "features.0.weight");
  EXPECT_EQ((*card)->parameters.back().name, "classifier.6.bias");
}

// 13 convolutions by hand: 2 * 9 * in * out * size^2, plus the three linear layers.
TEST(Vgg16, CountsItsOperations) { EXPECT_EQ((*FindModel("vgg16"))->forward_flops, 627'451'904); }

TEST(SparseCards, HaveTheParametersOfTheirSources) {
  EXPECT_EQ((*FindModel("ctr-dnn"))->ParameterCount(), 10'431'212);
  EXPECT_EQ((*FindModel("ctr-dnn"))->forward_flops, 860'000);
  EXPECT_EQ((*FindModel("simnet-bow"))->ParameterCount(), 185'837'056);
  // The source has a bias for each word besides, 354,051 more; ours has none.
  EXPECT_EQ((*FindModel("word2vec"))->ParameterCount(), 2 * 354'051 * 300);
}

TEST(TextCards, HaveTheParametersOfTheirSources) {
  EXPECT_EQ((*FindModel("transformer-base"))->ParameterCount(), 60'487'680);
  EXPECT_EQ((*FindModel("transformer-base"))->TensorCount(), 149);
  EXPECT_EQ((*FindModel("transformer-big"))->ParameterCount(), 209'055'744);
  // Hugging Face's BertForPreTraining of bert-base-uncased and bert-large-uncased.
  EXPECT_EQ((*FindModel("bert-base"))->ParameterCount(), 110'106'428);
  EXPECT_EQ((*FindModel("bert-base"))->TensorCount(), 206);
  EXPECT_EQ((*FindModel("bert-large"))->ParameterCount(), 336'226'108);
  std::int64_t encoder = 0;
  for (const TensorSpec& tensor : (*FindModel("bert-large"))->parameters) {
    if (tensor.name.starts_with("bert.")) encoder += tensor.Elements();
  }
  EXPECT_EQ(encoder, 335'141'888);
}

// By hand, of bert-base and 128 pieces: 12 layers of 4 d^2 + 2 d inner weights and 2 * 128 d scores
// each, 20 masked words, the pooler and the next sentence.
TEST(TextCards, CountTheirOperations) {
  EXPECT_EQ((*FindModel("bert-base"))->forward_flops,
            std::int64_t{12} * 2 * 128 * (4 * 768 * 768 + 2 * 768 * 3072 + 2 * 128 * 768) +
                std::int64_t{20} * 2 * 768 * (768 + 30'522) + 2 * 768 * (768 + 2));
}

TEST(Catalog, OnlyModelsWithTablesDoWithoutLibtorch) {
  EXPECT_FALSE((*FindModel("bert-small"))->Fused());
  EXPECT_FALSE((*FindModel("vgg16"))->Fused());
  EXPECT_TRUE((*FindModel("word2vec-small"))->Fused());
}

TEST(Catalog, NamesAreUniqueWithinAndAcrossCards) {
  std::set<std::string> names;
  for (const ModelCard& card : Catalog()) {
    EXPECT_TRUE(names.insert(card.name).second) << card.name;
    std::set<std::string> tensors;
    for (const TensorSpec& tensor : card.parameters) {
      EXPECT_TRUE(tensors.insert(tensor.name).second) << tensor.name;
    }
  }
}

TEST(FindModel, SuggestsTheNearestName) {
  EXPECT_THAT(FindModel("vgg61"),
              StatusIs(Code::kInvalidArgument, HasSubstr("did you mean 'vgg16'?")));
}

TEST(Catalog, LargeModelsHaveTheRecipesOfTheirSources) {
  for (const char* name : {"resnet50-imagenet", "se-resnet50-imagenet", "vgg16-imagenet"}) {
    const ModelCard& card = **FindModel(name);
    EXPECT_EQ(card.optimizer, "sgd") << name;
    EXPECT_EQ(card.momentum, 0.9) << name;
    EXPECT_EQ(card.weight_decay, 1e-4) << name;
    EXPECT_EQ(card.lr_schedule, "step") << name;
    EXPECT_EQ(card.lr_decay_at, "30,60,80") << name;
  }
  for (const char* name : {"bert-base", "bert-large"}) {
    const ModelCard& card = **FindModel(name);
    EXPECT_EQ(card.lr_schedule, "linear") << name;
    EXPECT_EQ(card.warmup_steps, 4000U) << name;
  }
}

// What they take to learn in a few hundred steps is measured.
TEST(Catalog, SmallModelsStayWithAConstantRate) {
  for (const ModelCard& card : Catalog()) {
    if (!card.name.ends_with("-small")) continue;
    EXPECT_EQ(card.lr_schedule, "") << card.name;
    EXPECT_EQ(card.momentum, 0) << card.name;
    EXPECT_EQ(card.weight_decay, 0) << card.name;
  }
}

}  // namespace
}  // namespace paceline::model

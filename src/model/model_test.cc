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

TEST(Catalog, OnlyImagesNeedLibtorch) {
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

}  // namespace
}  // namespace paceline::model

#include "job/model_choice.h"

#include <fstream>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(ChooseModel, KnowsTheCatalogueAndRefusesOtherNames) {
  const auto card = ChooseModel({.model = "vgg16"});
  ASSERT_THAT(card, IsOk());
  EXPECT_EQ(card->ParameterCount(), 15'254'602);
  EXPECT_THAT(ChooseModel({.model = "vgg17"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("vgg17")));
}

TEST(ChooseModel, TakesAScriptOnlyFromThoseWhoTrustIt) {
  const testing::TempDir dir;
  TrainConfig config{.model = dir / "net.pt"};
  EXPECT_THAT(ChooseModel(config), StatusIs(Code::kInvalidArgument, HasSubstr("no model file")));
  std::ofstream(config.model) << "anything";
  EXPECT_THAT(ChooseModel(config),
              StatusIs(Code::kInvalidArgument, HasSubstr("--trust-model-files")));
  config.trust_model_files = true;
  EXPECT_THAT(ChooseModel(config), IsOk());
  config.image_size = 224;
  config.classes = 1000;
  const auto card = ChooseModel(config);
  ASSERT_THAT(card, IsOk());
  EXPECT_EQ(card->input_shape, (std::vector<std::int64_t>{3, 224, 224}));
  EXPECT_EQ(card->classes, 1000);
}

TEST(ChooseModel, LeavesOtherNamesToAWorkerProgram) {
  const auto card = ChooseModel({.model = "spirals", .worker_program = "/opt/spirals"});
  ASSERT_THAT(card, IsOk());
  EXPECT_EQ(card->name, "spirals");
}

}  // namespace
}  // namespace paceline::job

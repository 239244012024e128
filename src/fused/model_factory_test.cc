#include "fused/model_factory.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::fused {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using testing::TempDir;

job::TrainConfig Config(const std::string& model, const std::string& data) {
  job::TrainConfig config;
  config.model = model;
  config.data = data;
  config.train_samples = 100;
  config.eval_samples = data == "synthetic" ? 50 : 0;
  return config;
}

// What `paceline models` shows is what is trained.
TEST(MakeModel, HasExactlyTheTensorsOfItsCard) {
  for (const char* name : {"ctr-dnn", "ctr-dnn-small", "word2vec-small", "simnet-bow-small"}) {
    const auto made = MakeModel(Config(name, "synthetic"));
    ASSERT_THAT(made, IsOk());
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors, expected;
    for (const sparse::TableSpec& table : made->model->tables()) {
      tensors.push_back(
          {table.name,
           {static_cast<std::int64_t>(table.rows), static_cast<std::int64_t>(table.dim)}});
    }
    for (const sparse::DenseSpec& tensor : made->model->dense()) {
      tensors.push_back({tensor.name, tensor.shape});
    }
    for (const model::TensorSpec& tensor : (*model::FindModel(name))->parameters) {
      expected.push_back({tensor.name, tensor.shape});
    }
    EXPECT_EQ(tensors, expected) << name;
  }
}

TEST(MakeModel, HoldsOutTheLastSamplesOfFiles) {
  const TempDir folder;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "1 2 3\t4 5\t6\n";
  testing::WriteFile(folder / "part-0", lines);
  const auto made = MakeModel(Config("simnet-bow-small", folder.path().string()));
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->model->dataset_size(), 18U);
  EXPECT_EQ(made->held_out->dataset_size(), 2U);
}

TEST(MakeModel, NamesTheFileThatIsMissingOrWrong) {
  const TempDir folder;
  for (const char* name : {"ctr-dnn", "word2vec", "simnet-bow"}) {
    EXPECT_THAT(MakeModel(Config(name, folder / "nowhere")),
                StatusIs(Code::kBadData, HasSubstr("nowhere")));
  }
  testing::WriteFile(folder / "bad.tsv", "not a click\n");
  EXPECT_THAT(MakeModel(Config("ctr-dnn", folder / "bad.tsv")),
              StatusIs(Code::kBadData, HasSubstr("bad.tsv")));
}

TEST(MakeModel, ReadsSentencesAndHasNoQuestionsAboutThem) {
  const TempDir folder;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "the quick brown fox\n";
  testing::WriteFile(folder / "news", lines);
  const auto made = MakeModel(Config("word2vec-small", folder.path().string()));
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->model->dataset_size(), 10U);
  EXPECT_TRUE(made->questions.empty());
}

TEST(MakeModel, ReadsQuestionsAboutTheWordsOfAText) {
  const TempDir folder;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "the quick brown fox\n";
  std::filesystem::create_directory(folder / "text");
  testing::WriteFile(folder / "text/news", lines);
  testing::WriteFile(folder / "analogies", ": one\nthe quick brown fox\nthe quick brown dog\n");
  testing::WriteFile(folder / "similarities", "the fox 1\n");
  job::TrainConfig config = Config("word2vec-small", folder / "text");
  config.analogies = folder / "analogies";
  config.similarities = folder / "similarities";
  const auto made = MakeModel(config);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->questions.size(), 1U);
  EXPECT_EQ(made->similarities.size(), 1U);
  ASSERT_EQ(made->warnings.size(), 1U);
  EXPECT_THAT(made->warnings[0], HasSubstr("1 of 2 questions"));
  EXPECT_EQ(made->vocabulary->size(), 5U);
  testing::WriteFile(folder / "similarities", "the fox\nthe fox\n");
  EXPECT_THAT(MakeModel(config), StatusIs(Code::kBadData, HasSubstr("similarities: line 2")));
}

TEST(MakeModel, RefusesImages) {
  EXPECT_THAT(MakeModel(Config("vgg16", "synthetic")),
              StatusIs(Code::kInvalidArgument, HasSubstr("paceline-worker")));
}

}  // namespace
}  // namespace paceline::fused

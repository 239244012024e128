#include "cli/train_flags.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

// What a run keeps as its config.toml is what --resume finds.
void ExpectReadsBack(const job::TrainConfig& config) {
  const testing::TempDir dir;
  testing::WriteFile(dir / "config.toml", job::ToToml(config));
  const auto again = ParseTrainArguments({"--resume", "--run", dir.path().string()});
  ASSERT_THAT(again, IsOk());
  job::TrainConfig expected = config;
  expected.resume = true;
  expected.run = dir.path().string();
  EXPECT_EQ(again->config, expected);
}

TEST(ParseTrainArguments, FlagsReachTheConfig) {
  const auto request = ParseTrainArguments(
      {"vgg16", "--batch", "64", "--lr=0.5", "--reproducible", "--steps", "7", "--json"});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->config.model, "vgg16");
  EXPECT_EQ(request->config.batch, 64);
  EXPECT_EQ(request->config.lr, 0.5);
  EXPECT_EQ(request->config.steps, 7U);
  EXPECT_TRUE(request->config.reproducible);
  EXPECT_TRUE(request->config.json);
}

TEST(ParseTrainArguments, WhatItDoesNotUnderstandIsNamed) {
  EXPECT_THAT(ParseTrainArguments({"vgg16", "--bacth", "64"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("--bacth")));
  EXPECT_THAT(ParseTrainArguments({"vgg16", "--batch", "many"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("many")));
  EXPECT_THAT(ParseTrainArguments({"vgg16", "--resume"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("--resume needs --run")));
  EXPECT_THAT(ParseTrainArguments({"vgg16", "--config", "/no/such/file.toml"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("/no/such/file.toml")));
}

TEST(ParseTrainArguments, TheLastOfARepeatedFlagWins) {
  const auto request = ParseTrainArguments({"vgg16", "--batch", "3", "--batch", "5"});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->config.batch, 5);
}

TEST(ParseTrainArguments, AnUnknownKeyInTheFileIsRefused) {
  const testing::TempDir dir;
  testing::WriteFile(dir / "c.toml", "model = \"vgg16\"\nbacth = 3\n");
  EXPECT_THAT(ParseTrainArguments({"--config", dir / "c.toml"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("bacth")));
}

TEST(ParseTrainArguments, FlagsWinOverTheFile) {
  const testing::TempDir dir;
  testing::WriteFile(dir / "c.toml", "model = \"vgg16\"\nbatch = 3\nlr = 0.25\n");
  const auto request = ParseTrainArguments({"--config", dir / "c.toml", "--batch", "5"});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->config.batch, 5);
  EXPECT_EQ(request->config.lr, 0.25);
}

// Every field that ToToml writes comes back: forgetting one here or there fails.
TEST(ParseTrainArguments, TheRecordedConfigReadsBackUnchanged) {
  const auto original = ParseTrainArguments({"vgg16-small",
                                             "--data",
                                             "/data/c",
                                             "--train-samples",
                                             "11",
                                             "--eval-samples",
                                             "12",
                                             "--augment",
                                             "none",
                                             "--bad-record",
                                             "skip",
                                             "--prefetch",
                                             "3",
                                             "--data-threads",
                                             "2",
                                             "--data-cache",
                                             "/cache",
                                             "--shards",
                                             "4",
                                             "--batch",
                                             "5",
                                             "--steps",
                                             "6",
                                             "--seed",
                                             "7",
                                             "--threads",
                                             "8",
                                             "--reproducible",
                                             "--optimizer",
                                             "sgd",
                                             "--lr",
                                             "0.125",
                                             "--momentum",
                                             "0.75",
                                             "--weight-decay",
                                             "1e-05",
                                             "--lr-schedule",
                                             "step",
                                             "--warmup-steps",
                                             "9",
                                             "--lr-decay-every",
                                             "10",
                                             "--lr-gamma",
                                             "0.5",
                                             "--lr-floor",
                                             "0.001",
                                             "--clip-norm",
                                             "2.5",
                                             "--nan-policy",
                                             "stop",
                                             "--nan-limit",
                                             "13",
                                             "--eval-every",
                                             "14",
                                             "--checkpoint-every",
                                             "15",
                                             "--keep",
                                             "16",
                                             "--checkpoint-required"});
  ASSERT_THAT(original, IsOk());
  ExpectReadsBack(original->config);
}

TEST(ParseTrainArguments, TheFlagsOfRecipesReadBackUnchanged) {
  const auto original = ParseTrainArguments(
      {"vgg16-small", "--beta1=0.8", "--beta2=0.98", "--epsilon=1e-09", "--trust-coefficient=0.02",
       "--ftrl-l1=0.5", "--decay-exclude=norm-bias,*.bn?.*", "--label-smoothing=0.1", "--ema=0.99",
       "--loss-scale=1024", "--lr-power=3", "--lr-decay-at=30,60,80", "--patience=4",
       "--keep-best"});
  ASSERT_THAT(original, IsOk());
  EXPECT_EQ(original->config.decay_exclude, "norm-bias,*.bn?.*");
  EXPECT_EQ(original->config.patience, 4U);
  ExpectReadsBack(original->config);
}

TEST(ParseTrainArguments, TheFlagsOfServersReadBackUnchanged) {
  const auto original = ParseTrainArguments({"vgg16-small",
                                             "--strategy",
                                             "ps",
                                             "--mode",
                                             "ssp",
                                             "--servers",
                                             "3",
                                             "--wal",
                                             "always",
                                             "--staleness",
                                             "4",
                                             "--wal-group-ms",
                                             "5",
                                             "--table-store",
                                             "rocksdb",
                                             "--geo-steps",
                                             "6",
                                             "--table-memory-mb",
                                             "7",
                                             "--merge",
                                             "8",
                                             "--restarts",
                                             "9",
                                             "--delay-compensation",
                                             "0.25",
                                             "--server-timeout",
                                             "1.5",
                                             "--pull-ahead",
                                             "--admit-count",
                                             "embedding=2",
                                             "--admit-probability",
                                             "other=0.5",
                                             "--evict-after",
                                             "100",
                                             "--table-optimizer",
                                             "sgd,embedding=adam",
                                             "--table-lr-scale",
                                             "0.5",
                                             "--server-away",
                                             "stale"});
  ASSERT_THAT(original, IsOk());
  EXPECT_EQ(original->config.servers, 3);
  ExpectReadsBack(original->config);
}

TEST(ParseTrainArguments, ResumeMayChangeTheEnd) {
  const testing::TempDir dir;
  testing::WriteFile(dir / "config.toml", "model = \"vgg16\"\nepochs = 2\n");
  const auto request =
      ParseTrainArguments({"--resume", "--run", dir.path().string(), "--steps", "9"});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->config.steps, 9U);
  EXPECT_EQ(request->config.epochs, 0U);
}

TEST(ParseTrainArguments, HelpListsTheFlags) {
  const auto request = ParseTrainArguments({"--help"});
  ASSERT_THAT(request, IsOk());
  EXPECT_TRUE(request->help);
  EXPECT_THAT(request->help_text, HasSubstr("--checkpoint-every"));
}

}  // namespace
}  // namespace paceline::cli

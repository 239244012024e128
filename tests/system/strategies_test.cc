// Every small model on libtorch with every strategy: the parameters are the same to the bit.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "model/catalog.h"
#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

// From the catalogue, so that a new model is tested without being listed.
std::vector<std::string> SmallTorchModels() {
  std::vector<std::string> names;
  for (const model::ModelCard& card : model::Catalog()) {
    if (card.name.ends_with("-small") && !card.Fused()) names.push_back(card.name);
  }
  return names;
}

class Strategies : public ::testing::TestWithParam<std::string> {};

// The second step is pulled by both trainers from both servers, the third one shows it.
TEST_P(Strategies, GiveTheSameParameters) {
  const TempDir dir;
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "train",          GetParam(), "--run",           dir / name,
        "--steps",        "3",        "--batch",         "2",
        "--shards",       "2",        "--train-samples", "16",
        "--eval-samples", "4",        "--json",          "--reproducible"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPaceline(arguments);
  };
  const CommandResult alone = train("alone", {});
  const std::string expected = HashOf(alone);
  EXPECT_EQ(LastJson(alone.out)["steps"], 3);
  EXPECT_EQ(LastJson(alone.out)["skipped_steps"], 0);
  EXPECT_EQ(HashOf(train("group", {"--workers", "2"})), expected);
  EXPECT_EQ(HashOf(train("servers", {"--workers", "2", "--servers", "2", "--strategy", "ps",
                                     "--mode", "sync"})),
            expected);
}

INSTANTIATE_TEST_SUITE_P(Models, Strategies, ::testing::ValuesIn(SmallTorchModels()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace paceline::testing

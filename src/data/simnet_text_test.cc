#include "data/simnet_text.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/synthetic_simnet.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::paceline::testing::TempDir;
using ::paceline::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SimnetText, ReadsSamplesOfAllFiles) {
  TempDir dir;
  WriteFile(dir / "a", "1\t2 3\t4\n9 9 8\t7\t6 5\r\n");
  WriteFile(dir / "b", "0\t0\t0");
  const auto text = SimnetText::Open(dir.path(), 10);
  ASSERT_THAT(text, IsOk());
  ASSERT_EQ((*text)->size(), 3U);
  SimnetSample sample;
  ASSERT_THAT((*text)->Read(1, sample), IsOk());
  EXPECT_THAT(sample.query, ElementsAre(9, 9, 8));
  EXPECT_THAT(sample.positive, ElementsAre(7));
  EXPECT_THAT(sample.negative, ElementsAre(6, 5));
  ASSERT_THAT((*text)->Read(2, sample), IsOk());
  EXPECT_THAT(sample.query, ElementsAre(0));
  EXPECT_THAT((*text)->Read(3, sample), StatusIs(Code::kInvalidArgument, HasSubstr("3 of 3")));
  EXPECT_THAT((*text)->Fingerprint(), AllOf(HasSubstr("a:"), HasSubstr("dictionary:10")));
}

TEST(SimnetText, NamesFileAndOffsetOfABadLine) {
  TempDir dir;
  const auto open = [&](const std::string& line) {
    WriteFile(dir / "shard", "1\t2\t3\n" + line);
    return SimnetText::Open(dir.path(), 10);
  };
  for (const char* bad : {"1\t2", "1\t2\t3\t4"}) {
    EXPECT_THAT(open(bad), StatusIs(Code::kBadData,
                                    HasSubstr("shard: line 2, byte offset 6: not three lists")));
  }
  for (const char* bad : {"1\t\t3", "1\tx\t3", "1\t2 \t3", "1\t2  2\t3", "-1\t2\t3", " 1\t2\t3"}) {
    EXPECT_THAT(open(bad), StatusIs(Code::kBadData,
                                    HasSubstr("shard: line 2, byte offset 6: not a list of ids")));
  }
  EXPECT_THAT(open("1\t2\t10"), StatusIs(Code::kBadData, HasSubstr("id 10 of a dictionary of 10")));
  EXPECT_THAT(open("1\t2\t99999999999999999999"),
              StatusIs(Code::kBadData, HasSubstr("not a list")));
}

TEST(SimnetText, ALineThatIsSpoiledLaterIsAnErrorWithItsNumber) {
  TempDir dir;
  WriteFile(dir / "shard", "1\t2\t3\n1\t2\t3\n");
  const auto text = SimnetText::Open(dir.path(), 10);
  ASSERT_THAT(text, IsOk());
  WriteFile(dir / "shard", "1\t2\t3\n1\t2\tx\n");
  SimnetSample sample;
  EXPECT_THAT((*text)->Read(1, sample), StatusIs(Code::kBadData, HasSubstr("shard: line 2")));
}

TEST(SyntheticSimnet, IsAPureFunctionOfSeedAndSample) {
  const auto read = [](const SyntheticSimnetOptions& options, std::uint64_t index) {
    SimnetSample sample;
    EXPECT_THAT(SyntheticSimnet(options).Read(index, sample), IsOk());
    return std::vector{sample.query, sample.positive, sample.negative};
  };
  EXPECT_EQ(read({.seed = 3, .size = 20}, 7), read({.seed = 3}, 7));
  EXPECT_EQ(read({.seed = 3, .first = 5}, 2), read({.seed = 3}, 7));
  EXPECT_NE(read({.seed = 3}, 7), read({.seed = 4}, 7));
  EXPECT_NE(read({.seed = 3}, 7), read({.seed = 3}, 8));
  SimnetSample sample;
  EXPECT_THAT(SyntheticSimnet({.size = 2}).Read(2, sample),
              StatusIs(Code::kInvalidArgument, HasSubstr("sample 2 of 2")));
}

TEST(SyntheticSimnet, TitlesThatFitShareTheTopicOfTheQuery) {
  // As many topics as fit the dictionary unevenly.
  const SyntheticSimnet source({.seed = testing::TestSeed(), .dictionary = 100, .topics = 7});
  std::size_t fits = 0, misfits = 0, words = 0;
  std::set<std::int64_t> seen;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    SimnetSample sample;
    ASSERT_THAT(source.Read(i, sample), IsOk());
    for (const std::int64_t id : sample.query) seen.insert(id);
    const std::int64_t topic = sample.query.front() % 7;
    fits += sample.positive.front() % 7 == topic ? 1 : 0;
    misfits += sample.negative.front() % 7 == topic ? 1 : 0;
    ++words;
  }
  EXPECT_GT(fits, words / 2);
  EXPECT_LT(misfits, words / 4);
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_LT(*seen.rbegin(), 100);
}

}  // namespace
}  // namespace paceline::data

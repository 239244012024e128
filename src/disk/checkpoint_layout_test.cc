#include "disk/checkpoint_layout.h"

#include <gmock/gmock.h>

namespace paceline::disk {
namespace {

using ::testing::ElementsAre;

TEST(CheckpointLayout, NamesSortLikeNumbersAndParseBack) {
  EXPECT_EQ(GenerationName(Generation(42)), "gen-0000000000000042");
  EXPECT_LT(GenerationName(Generation(9)), GenerationName(Generation(10)));
  for (const std::uint64_t n : {0ULL, 1ULL, 9'999'999'999'999'999ULL, 12'345'678'901'234'567ULL}) {
    const auto parsed = ParseGenerationName(GenerationName(Generation(n)));
    ASSERT_TRUE(parsed.has_value()) << n;
    EXPECT_EQ(parsed->number, Generation(n));
    EXPECT_FALSE(parsed->broken);
  }
}

TEST(CheckpointLayout, OtherNamesAreNoGenerations) {
  for (const char* name :
       {"", "gen-", "gen-1", "gen-000000000000000x", "gen--000000000000001", "LATEST",
        "gen-00000000000000001", "gen-0000000000000001.old", "gen-18446744073709551615",
        "gen-99999999999999999999999", "xgen-0000000000000001", "gen-0000000000000001 "}) {
    EXPECT_FALSE(ParseGenerationName(name).has_value()) << name;
  }
}

TEST(CheckpointLayout, BrokenGenerationsStillCountForTheNextNumber) {
  const std::vector<DirEntry> entries{{".tmp-0000000000000009-1-1", true},
                                      {"LATEST", false},
                                      {"gen-0000000000000002", true},
                                      {"gen-0000000000000007.broken-2", true},
                                      {"gen-0000000000000003", false}};
  const RootLayout layout = ReadLayout(entries);
  EXPECT_EQ(layout.NextGeneration(), Generation(8));
  EXPECT_THAT(layout.temporaries, ElementsAre(".tmp-0000000000000009-1-1"));
  ASSERT_EQ(layout.generations.size(), 3U);
  EXPECT_TRUE(layout.generations[0].broken);
  EXPECT_EQ(layout.generations[1].number, Generation(3));
  EXPECT_FALSE(layout.generations[1].is_directory);
  EXPECT_TRUE(layout.generations[2].is_directory);
  EXPECT_EQ(RootLayout{}.NextGeneration(), Generation(1));
}

TEST(CheckpointLayout, ATakenBrokenNameGetsANumber) {
  const std::vector<DirEntry> entries{{"gen-0000000000000001.broken", true},
                                      {"gen-0000000000000001.broken-2", true}};
  EXPECT_EQ(ReadLayout(entries).BrokenName(Generation(1)), "gen-0000000000000001.broken-3");
  EXPECT_EQ(ReadLayout(entries).BrokenName(Generation(2)), "gen-0000000000000002.broken");
}

}  // namespace
}  // namespace paceline::disk

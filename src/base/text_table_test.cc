#include "base/text_table.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(AlignColumns, FirstColumnIsLeftAndTheOthersRightByDefault) {
  EXPECT_EQ(AlignColumns({{"a", "1", "x"}, {"bbb", "22", "yy"}}),
            "a      1    x\n"
            "bbb   22   yy\n");
}

TEST(AlignColumns, AlignmentIsChosenByColumnAndLinesHaveNoBlanksAtTheEnd) {
  EXPECT_EQ(AlignColumns({{"1", "a"}, {"22", "bbb"}}, "rl"),
            " 1   a\n"
            "22   bbb\n");
}

TEST(AlignColumns, CountsLettersNotBytes) {
  EXPECT_EQ(AlignColumns({{"±", "1"}, {"ab", "2"}}), "±    1\nab   2\n");
}

}  // namespace
}  // namespace paceline

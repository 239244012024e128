#include "job/slurm_list.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Lt;
using testing::StatusIs;

TEST(ExpandNodeList, PlainNamesStay) {
  EXPECT_THAT(*ExpandNodeList("login1"), ElementsAre("login1"));
  EXPECT_THAT(*ExpandNodeList("a,b.example.org,c-1_x"), ElementsAre("a", "b.example.org", "c-1_x"));
}

TEST(ExpandNodeList, RangesKeepTheWidthOfTheirFirstNumber) {
  EXPECT_THAT(*ExpandNodeList("gnode[10,20,025-027],login1"),
              ElementsAre("gnode10", "gnode20", "gnode025", "gnode026", "gnode027", "login1"));
  EXPECT_THAT(*ExpandNodeList("n[8-10]"), ElementsAre("n8", "n9", "n10"));
  EXPECT_THAT(*ExpandNodeList("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
}

TEST(ExpandNodeList, SeveralBracketsMultiply) {
  EXPECT_THAT(*ExpandNodeList("r[0-1]n[1,3]-ib"),
              ElementsAre("r0n1-ib", "r0n3-ib", "r1n1-ib", "r1n3-ib"));
}

TEST(ExpandNodeList, RefusesWhatIsNoList) {
  for (const char* wrong : {"",
                            ",",
                            "a,",
                            ",a",
                            "a,,b",
                            "n[",
                            "n[]",
                            "n[1",
                            "n]1[",
                            "n[1,]",
                            "n[,1]",
                            "n[1-]",
                            "n[-1]",
                            "n[2-1]",
                            "n[a]",
                            "n[1-2-3]",
                            "n[[1]]",
                            "n[1 ]",
                            "n 1",
                            "-oProxyCommand=x",
                            "n;reboot",
                            "n[1234567890]",
                            "n[0-4294967295]",
                            "[1]]"}) {
    EXPECT_THAT(ExpandNodeList(wrong), StatusIs(Code::kInvalidArgument, HasSubstr("list '")))
        << wrong;
  }
}

TEST(ExpandNodeList, AShortTextCannotBecomeManyHosts) {
  EXPECT_EQ(ExpandNodeList("n[1-65536]")->size(), kMaxHosts);
  const auto too_many = HasSubstr("more than 65536 hosts");
  for (const char* wrong : {"n[0-65536]", "n[1-65536],m", "n[1-300]m[1-300]",
                            "n[1-65536]m[1-65536]x[1-65536]", "n[1-65000,1-65000]"}) {
    EXPECT_THAT(ExpandNodeList(wrong), StatusIs(Code::kInvalidArgument, too_many)) << wrong;
  }
}

TEST(ExpandNodeList, ALongTextGivesAShortMessage) {
  const auto result = ExpandNodeList(std::string(100000, 'a') + "[1-2]");
  EXPECT_THAT(result, StatusIs(Code::kInvalidArgument, HasSubstr("too long")));
  EXPECT_THAT(result.status().message().size(), Lt(200U));
}

TEST(ExpandTaskList, RepeatsAreWrittenOut) {
  EXPECT_THAT(*ExpandTaskList("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*ExpandTaskList("4"), ElementsAre(4));
  EXPECT_EQ(ExpandTaskList("1(x65536)")->size(), kMaxHosts);
}

TEST(ExpandTaskList, RefusesWhatIsNoList) {
  for (const char* wrong :
       {"", ",", "2,", ",2", "2(x)", "2(x3", "2(3)", "2(x3)4", "2(x0)", "0", "x", "-1", "2(x-1)",
        "2(x3)(x3)", "65537", "1(x65537)", "1(x65536),1", "99999999999"}) {
    EXPECT_THAT(ExpandTaskList(wrong), StatusIs(Code::kInvalidArgument, HasSubstr("list '")))
        << wrong;
  }
}

}  // namespace
}  // namespace paceline::job

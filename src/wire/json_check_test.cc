#include "wire/json_check.h"

#include <string>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::wire {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(CheckJson, AcceptsADocumentWithSpaceAroundIt) {
  EXPECT_THAT(CheckJson(R"( {"a":{"x":1},"b":{"x":[1,-2,3.5,null,true,"t"]}}  )", 3), IsOk());
}

TEST(CheckJson, RefusesAKeyTwiceInOneObjectAtAnyDepth) {
  EXPECT_THAT(CheckJson(R"({"a":1,"a":1})", 9), StatusIs(Code::kBadData, HasSubstr("\"a\"")));
  EXPECT_THAT(CheckJson(R"([{"k":{"b":1,"\u0062":2}}])", 9),
              StatusIs(Code::kBadData, HasSubstr("\"b\" appears twice")));
}

TEST(CheckJson, NamesTheByteThatIsWrong) {
  EXPECT_THAT(CheckJson(R"({"a":})", 9), StatusIs(Code::kBadData, HasSubstr("byte 6")));
  EXPECT_THAT(CheckJson("", 9), StatusIs(Code::kBadData, HasSubstr("byte")));
  EXPECT_THAT(CheckJson("{} x", 9), StatusIs(Code::kBadData, HasSubstr("byte")));
  EXPECT_THAT(CheckJson("\"\xFF\"", 9), StatusIs(Code::kBadData, HasSubstr("byte")));
  EXPECT_THAT(CheckJson("[1e999]", 9), StatusIs(Code::kBadData, HasSubstr("byte")));
}

TEST(CheckJson, RefusesWhatHidesBehindANul) {
  EXPECT_THAT(CheckJson(std::string("{}\0{", 4), 9), StatusIs(Code::kBadData, HasSubstr("NUL")));
}

TEST(CheckJson, StopsAtTheDepthLimit) {
  EXPECT_THAT(CheckJson("[[1]]", 2), IsOk());
  EXPECT_THAT(CheckJson("[[[1]]]", 2), StatusIs(Code::kBadData, HasSubstr("deeper than 2")));
  EXPECT_THAT(CheckJson(std::string(1'000'000, '['), 64),
              StatusIs(Code::kBadData, HasSubstr("deeper than 64")));
}

}  // namespace
}  // namespace paceline::wire

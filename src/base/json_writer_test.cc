#include "base/json_writer.h"

#include <limits>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(JsonObject, KeepsOrderAndNests) {
  const JsonObject inner = JsonObject().Add("data", 0.25);
  EXPECT_EQ(JsonObject()
                .Add("model", "vgg16")
                .Add("steps", std::uint64_t{7})
                .Add("resumed", false)
                .Add("phases", inner)
                .Add("names", std::vector<std::string>{"a", "b"})
                .Add("list", std::vector<JsonObject>{inner, JsonObject()})
                .Text(),
            R"({"model": "vgg16", "steps": 7, "resumed": false, "phases": {"data": 0.25}, )"
            R"("names": ["a", "b"], "list": [{"data": 0.25}, {}]})");
}

TEST(JsonObject, NumbersThatJsonLacksBecomeNull) {
  EXPECT_EQ(JsonObject().Add("x", std::numeric_limits<double>::quiet_NaN()).Text(),
            R"({"x": null})");
  EXPECT_EQ(JsonObject().Add("x", std::numeric_limits<double>::infinity()).Text(),
            R"({"x": null})");
}

TEST(JsonQuote, EscapesWhatJsonDemandsAndReplacesBrokenUtf8) {
  EXPECT_EQ(JsonQuote("a\"b\\c\n\x01"), R"("a\"b\\c\n\u0001")");
  EXPECT_EQ(JsonQuote("naïve ✓"), "\"naïve ✓\"");
  EXPECT_EQ(JsonQuote("bad\xff\xc3"), R"("bad\ufffd\ufffd")");
}

}  // namespace
}  // namespace paceline

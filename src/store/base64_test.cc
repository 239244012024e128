#include <utility>

#include "store/base64.h"

#include <gmock/gmock.h>

#include "base/rng.h"
#include "testing/seed.h"

namespace paceline::store {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(Base64, AgreesWithTheExamplesOfTheStandard) {  // RFC 4648 section 10
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_THAT(DecodeBase64(text), Optional(Eq(bytes)));
  }
}

TEST(Base64, EveryLengthOfAnyBytesComesBack) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 1, 0);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, ' ');
    for (char& c : bytes) c = static_cast<char>(rng.Next() & 0xFF);
    EXPECT_THAT(DecodeBase64(EncodeBase64(bytes)), Optional(Eq(bytes)));
  }
}

TEST(Base64, RefusesWhatIsNoBase64) {
  for (const char* text : {"Z", "Zg", "Zg=", "=", "====", "Zg===", "Z===", "Zg==Zg==", "Zm9\n",
                           "Zm-v", "Zh==", "Zm9=", " Zg=", "Zg==\xff\xff\xff\xff"}) {
    EXPECT_FALSE(DecodeBase64(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace paceline::store

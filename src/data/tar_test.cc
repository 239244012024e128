#include "data/tar.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Listing {
  std::vector<std::string> names;
  std::vector<std::string> contents;
  Status status;
};

Listing List(const std::string& tar) {
  TarHeaders headers(tar.size(), [&](std::uint64_t offset, std::span<std::byte> bytes) {
    EXPECT_LE(offset + bytes.size(), tar.size());
    std::ranges::copy(BytesOf(tar).subspan(offset, bytes.size()), bytes.begin());
    return Status();
  });
  Listing listing;
  for (;;) {
    auto member = headers.Next();
    if (!member.ok()) {
      listing.status = member.status();
      EXPECT_FALSE(headers.Next()->has_value()) << "nothing comes after an error";
      return listing;
    }
    if (!*member) return listing;
    listing.names.push_back((*member)->name);
    listing.contents.push_back(tar.substr((*member)->offset, (*member)->bytes));
  }
}

TEST(TarHeaders, FindsRegularFilesAndTheirContent) {
  const Listing listing =
      List(TarFile("folder/", "", '5') + TarFile("folder/a.txt", "one") + TarFile("empty", "") +
           TarFile("link", "", '2') + TarFile("old", std::string(512, 'x'), '\0') + TarEnd());
  EXPECT_THAT(listing.status, IsOk());
  EXPECT_THAT(listing.names, ElementsAre("folder/a.txt", "empty", "old"));
  EXPECT_THAT(listing.contents, ElementsAre("one", "", std::string(512, 'x')));
}

TEST(TarHeaders, KnowsTheThreeWaysOfLongNames) {
  const std::string name = std::string(80, 'd') + "/" + std::string(120, 'n') + ".jpg";
  std::string prefixed = TarFile("short.jpg", "p");
  prefixed.replace(345, 5, "a/b/c");
  unsigned sum = 0;
  prefixed.replace(148, 8, "        ");
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(prefixed[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  prefixed.replace(148, 7, std::string(text, 7));
  const Listing listing = List(GnuLongFile(name, "gnu") + PaxFile(name, "pax") +
                               TarFile("g", "21 comment=everything\n", 'g') + prefixed +
                               TarFile("plain", "x") + TarEnd());
  EXPECT_THAT(listing.status, IsOk());
  EXPECT_THAT(listing.names, ElementsAre(name, name, "a/b/c/short.jpg", "plain"));
  EXPECT_THAT(listing.contents, ElementsAre("gnu", "pax", "p", "x"));
}

TEST(TarHeaders, ACutFileIsAnErrorWithItsOffset) {
  const std::string tar = TarFile("a.jpg", std::string(1000, 'a')) + TarFile("b.jpg", "bbb");
  EXPECT_THAT(List(tar).status,
              StatusIs(Code::kBadData, AllOf(HasSubstr("byte offset 2560"), HasSubstr("ends"))));
  EXPECT_THAT(List(tar.substr(0, 1600)).status,
              StatusIs(Code::kBadData, HasSubstr("byte offset 1536")));
  const Listing inside = List(tar.substr(0, 1000));
  EXPECT_THAT(inside.status,
              StatusIs(Code::kBadData, AllOf(HasSubstr("byte offset 0"), HasSubstr("'a.jpg'"))));
  EXPECT_THAT(inside.names, IsEmpty());
  EXPECT_THAT(List(tar + std::string(512, '\0')).status, IsOk()) << "one empty block will do";
}

TEST(TarHeaders, DamageIsAnErrorWithItsOffset) {
  std::string tar = TarFile("a.jpg", "a") + TarFile("b.jpg", "b") + TarEnd();
  tar[1024 + 3] ^= 1;
  const Listing listing = List(tar);
  EXPECT_THAT(listing.names, ElementsAre("a.jpg"));
  EXPECT_THAT(listing.status,
              StatusIs(Code::kBadData, HasSubstr("byte offset 1024: wrong checksum")));
}

TEST(TarHeaders, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(List(TarFile("s", "", 'S') + TarEnd()).status,
              StatusIs(Code::kBadData, HasSubstr("sparse")));
  EXPECT_THAT(List(TarFile("x", "99 path=a\n", 'x') + TarEnd()).status,
              StatusIs(Code::kBadData, HasSubstr("wrong length")));
  EXPECT_THAT(List(TarFile("x", "8 path+a", 'x') + TarEnd()).status,
              StatusIs(Code::kBadData, HasSubstr("pax")));
  EXPECT_THAT(List(TarFile("x", "10 size=x\n", 'x') + TarEnd()).status,
              StatusIs(Code::kBadData, HasSubstr("no number")));
  EXPECT_THAT(
      List(TarFile("x", "29 size=18446744073709551615\n", 'x') + TarFile("y", "") + TarEnd())
          .status,
      StatusIs(Code::kBadData, HasSubstr("does not fit")));
}

TEST(SplitSampleName, EndsTheSampleAtTheFirstDotOfTheLastPart) {
  const auto split = [](std::string_view name) {
    const auto parts = SplitSampleName(name);
    return parts ? std::string(parts->sample) + "|" + parts->suffix : "none";
  };
  EXPECT_EQ(split("n01/a_1.JPEG"), "n01/a_1|jpeg");
  EXPECT_EQ(split("a.b/c.seg.JPG"), "a.b/c|seg.jpg");
  EXPECT_EQ(split("./x.cls"), "./x|cls");
  EXPECT_EQ(split("x."), "x|");
  EXPECT_EQ(split("README"), "none");
  EXPECT_EQ(split("folder.d/README"), "none");
  EXPECT_EQ(split(".hidden.jpg"), "none");
  EXPECT_EQ(split("a/.hidden.jpg"), "none");
  EXPECT_EQ(split("__meta.json__"), "none");
}

}  // namespace
}  // namespace paceline::data

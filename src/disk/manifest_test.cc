#include "disk/manifest.h"

#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::disk {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

Result<Manifest> Decode(const std::string& text) {
  return DecodeManifest(std::as_bytes(std::span(text)));
}

Manifest Sample() {
  return {.meta = {.cluster_id = "c\"é",
                   .generation = Generation(7),
                   .step = Step(123),
                   .epoch = 2,
                   .sample_position = 99,
                   .world_size = 4,
                   .seed = std::numeric_limits<std::uint64_t>::max(),
                   .optimizer = "adam",
                   .model = "resnet18",
                   .model_hash = "ab12",
                   .config = {{"lr", "0.1"}, {"", ""}},
                   .counters = {{"best", 0.1}, {"one", 1.0}, {"n", std::int64_t{-5}}}},
          .files = {{"a.safetensors", 10, 0xDEADBEEF}, {"b.safetensors", 0, 0}}};
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The body of the sample with one text replaced, sealed with a correct checksum.
std::string Resealed(const std::string& from, const std::string& to) {
  const std::string text = *EncodeManifest(Sample());
  const std::size_t begin = text.find("\"manifest\":") + 11;
  return SealManifest(Replaced(text.substr(begin, text.size() - begin - 2), from, to));
}

TEST(Manifest, RoundTripKeepsEveryFieldAndTheKindOfNumber) {
  auto text = EncodeManifest(Sample());
  ASSERT_THAT(text, IsOk());
  auto decoded = Decode(*text);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, Sample());
}

TEST(Manifest, EveryFlippedBitIsNoticed) {
  std::string text = *EncodeManifest(Sample());
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    auto decoded = Decode(text);
    // Hexadecimal digits of the checksum may change case; the meaning stays.
    if (decoded.ok()) {
      EXPECT_EQ(*decoded, Sample()) << bit;
    } else {
      EXPECT_EQ(decoded.status().code(), Code::kBadData) << bit;
    }
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(Manifest, EveryTruncationIsNoticed) {
  const std::string text = *EncodeManifest(Sample());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(Decode(text.substr(0, size)), StatusIs(Code::kBadData, HasSubstr(""))) << size;
  }
}

TEST(Manifest, ANewerSchemaIsAMismatchThatNamesBoth) {
  EXPECT_THAT(Decode(Resealed("\"schema\": 1", "\"schema\": 2")),
              StatusIs(Code::kMismatch, HasSubstr("schema 2, this program reads 1")));
  EXPECT_THAT(Decode(Resealed("\"schema\": 1", "\"schema\": 0")),
              StatusIs(Code::kBadData, HasSubstr("schema 0")));
}

TEST(Manifest, EncodeRefusesWhatJsonCannotHold) {
  Manifest manifest = Sample();
  manifest.meta.counters["x"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(EncodeManifest(manifest), StatusIs(Code::kInvalidArgument, HasSubstr("\"x\"")));
  manifest = Sample();
  manifest.meta.model = "\xFF";
  EXPECT_THAT(EncodeManifest(manifest), StatusIs(Code::kInvalidArgument, HasSubstr("UTF-8")));
  manifest = Sample();
  manifest.files[0].name = "../x";
  EXPECT_THAT(EncodeManifest(manifest), StatusIs(Code::kInvalidArgument, HasSubstr("../x")));
}

TEST(Manifest, OnlyPlainNamesStayInsideTheDirectory) {
  EXPECT_TRUE(IsPlainFileName("model-00001-of-00005.safetensors"));
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("/a"),
        std::string("../a"), std::string(".hidden"), std::string("a\0b", 3),
        std::string("MANIFEST.json"), std::string(201, 'a')}) {
    EXPECT_FALSE(IsPlainFileName(name)) << name;
  }
}

struct BadManifest {
  const char* claim;
  const char* from;
  const char* to;
  const char* message;
};

class BadManifests : public ::testing::TestWithParam<BadManifest> {};

TEST_P(BadManifests, AreRefusedWithTheReason) {
  EXPECT_THAT(Decode(Resealed(GetParam().from, GetParam().to)),
              StatusIs(Code::kBadData, HasSubstr(GetParam().message)));
}

const std::vector<BadManifest> kBadBodies{
    BadManifest{"InvalidJson", "\"seed\":", "\"seed\"", "invalid JSON"},
    BadManifest{"DuplicateKey", "\"seed\":", "\"step\":1,\"seed\":", "\"step\" appears twice"},
    BadManifest{"MissingField", "\"seed\":", "\"sead\":", "\"seed\" is not a number"},
    BadManifest{"NegativeStep", "\"step\": 123", "\"step\": -1", "\"step\" is not a number"},
    BadManifest{"FractionalStep", "\"step\": 123", "\"step\": 1.5", "\"step\" is not a number"},
    BadManifest{"StepIsText", "\"step\": 123", "\"step\": \"1\"", "\"step\" is not a number"},
    BadManifest{"ModelIsNumber", "\"resnet18\"", "18", "\"model\" is not a text"},
    BadManifest{"ConfigValueIsNumber", "\"0.1\"", "0.1", "config \"lr\" is no text"},
    BadManifest{"CounterIsText", "-5", "\"-5\"", "counter \"n\": is no number"},
    BadManifest{"CounterIsTooLarge", "-5", "9223372036854775808", "counter \"n\""},
    BadManifest{"FileNameLeavesTheDirectory", "a.safetensors", "../../a", "no plain name"},
    BadManifest{"FileListedTwice", "a.safetensors", "b.safetensors", "listed twice"},
    BadManifest{"ShortFileCrc", "deadbeef", "deadbee", "hexadecimal"},
    BadManifest{"FileCrcIsNoNumber", "deadbeef", "deadbeeg", "hexadecimal"},
    BadManifest{"FileBytesAreNegative", "\"bytes\": 10", "\"bytes\": -10",
                "file 0: \"bytes\" is not a number"}};

INSTANTIATE_TEST_SUITE_P(Bodies, BadManifests, ::testing::ValuesIn(kBadBodies),
                         [](const auto& test) { return std::string(test.param.claim); });

}  // namespace
}  // namespace paceline::disk

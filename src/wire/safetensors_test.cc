#include "wire/safetensors.h"

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/rng.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "wire/endian.h"

namespace paceline::wire {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// A file with this JSON header and `data_bytes` of data.
std::string File(const std::string& json, std::size_t data_bytes) {
  std::string file(8, '\0');
  StoreU64(reinterpret_cast<std::byte*>(file.data()), json.size());
  return file + json + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> Decode(const std::string& file) {
  return DecodeSafetensorsHeader(Bytes(file), file.size());
}

// `w` = [1.0, -2.0], written by the reference implementation.
const char kGolden[] =
    "38000000000000007b2277223a7b226474797065223a22463332222c227368617065223a5b325d2c22646174615f"
    "6f666673657473223a5b302c385d7d7d20200000803f000000c0";

TEST(Safetensors, ReadsTheGoldenFile) {
  const std::string file = FromHex(kGolden);
  ASSERT_EQ(file.size(), 72U);
  auto header = Decode(file);
  ASSERT_THAT(header, IsOk());
  ASSERT_EQ(header->tensors.size(), 1U);
  EXPECT_EQ(header->tensors[0].name, "w");
  EXPECT_EQ(header->tensors[0].dtype, DType::kF32);
  EXPECT_EQ(header->tensors[0].shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(header->data_start, 64U);
  EXPECT_EQ(LoadF32(Bytes(file).data() + 64), 1.0F);
  EXPECT_EQ(LoadF32(Bytes(file).data() + 68), -2.0F);
}

TEST(Safetensors, WritesTheGoldenFile) {
  const TensorInfo w{.name = "w", .dtype = DType::kF32, .shape = {2}};
  auto head = EncodeSafetensorsHeader({&w, 1});
  ASSERT_THAT(head, IsOk());
  EXPECT_EQ(*head, FromHex(kGolden).substr(0, 64));
}

TEST(Safetensors, DTypeNamesGoBothWays) {
  for (int i = 0; i <= static_cast<int>(DType::kC64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(DTypeFromName("F4"), std::nullopt);
  EXPECT_EQ(DTypeBytes(DType::kBF16), 2U);
}

TEST(Safetensors, RoundTripKeepsOrderShapesMetadataAndPadding) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 2, 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorInfo> tensors(rng.Below(9));
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      // The number goes first: tensors without bytes are ordered by name.
      tensors[i].name = fmt::format("{}.layer\"\n\xC3\xA9", i);
      tensors[i].dtype = static_cast<DType>(rng.Below(16));
      for (std::uint32_t d = rng.Below(4); d > 0; --d) tensors[i].shape.push_back(rng.Below(5));
      tensors[i].begin = bytes;
      bytes += *TensorBytes(tensors[i].dtype, tensors[i].shape);
      tensors[i].end = bytes;
    }
    const Metadata metadata = round % 2 == 0 ? Metadata{} : Metadata{{"format", "pt"}, {"", "é"}};
    auto head = EncodeSafetensorsHeader(tensors, metadata);
    ASSERT_THAT(head, IsOk());
    EXPECT_EQ(head->size() % 8, 0U);
    auto header = DecodeSafetensorsHeader(Bytes(*head), head->size() + bytes);
    ASSERT_THAT(header, IsOk()) << *head;
    EXPECT_EQ(header->metadata, metadata);
    EXPECT_EQ(header->data_start, head->size());
    ASSERT_EQ(header->tensors.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(header->tensors[i].name, tensors[i].name);
      EXPECT_EQ(header->tensors[i].dtype, tensors[i].dtype);
      EXPECT_EQ(header->tensors[i].shape, tensors[i].shape);
      EXPECT_EQ(header->tensors[i].begin, tensors[i].begin);
      EXPECT_EQ(header->tensors[i].end, tensors[i].end);
    }
  }
}

TEST(Safetensors, TensorsOutOfOrderInTheHeaderComeInDataOrder) {
  auto header = Decode(File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                            R"("b":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})",
                            3));
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->tensors[0].name, "b");
  EXPECT_EQ(header->tensors[1].name, "a");
}

TEST(Safetensors, EncodeRefusesWhatCannotBeRead) {
  const auto encode = [](std::vector<TensorInfo> tensors) {
    return EncodeSafetensorsHeader(tensors);
  };
  EXPECT_THAT(encode({{.name = "w"}, {.name = "w"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("\"w\" is taken")));
  EXPECT_THAT(encode({{.name = "__metadata__"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("__metadata__")));
  EXPECT_THAT(encode({{.name = "\xFF"}}), StatusIs(Code::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(encode({{.name = "n", .shape = {-1}}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("\"n\"")));
}

TEST(Safetensors, HeaderLengthIsBoundedBeforeAnythingElse) {
  std::string file(16, ' ');
  const auto with_length = [&](std::uint64_t length) {
    StoreU64(reinterpret_cast<std::byte*>(file.data()), length);
    return Decode(file);
  };
  EXPECT_THAT(with_length(std::numeric_limits<std::uint64_t>::max()),
              StatusIs(Code::kBadData, HasSubstr("at most 100000000")));
  EXPECT_THAT(with_length(100'000'001), StatusIs(Code::kBadData, HasSubstr("at most")));
  EXPECT_THAT(with_length(100'000'000), StatusIs(Code::kBadData, HasSubstr("8 are there")));
  EXPECT_THAT(with_length(9), StatusIs(Code::kBadData, HasSubstr("8 are there")));
  EXPECT_THAT(with_length(8), StatusIs(Code::kBadData, HasSubstr("start with '{'")));
  EXPECT_THAT(with_length(0), StatusIs(Code::kBadData, HasSubstr("start with '{'")));
  EXPECT_THAT(Decode(""), StatusIs(Code::kBadData, HasSubstr("too few")));
  EXPECT_THAT(Decode("1234567"), StatusIs(Code::kBadData, HasSubstr("too few")));
}

struct BadHeader {
  const char* claim;
  const char* json;
  std::size_t data_bytes;
  const char* message;
};

class BadSafetensors : public ::testing::TestWithParam<BadHeader> {};

TEST_P(BadSafetensors, IsRefusedWithItsReason) {
  EXPECT_THAT(Decode(File(GetParam().json, GetParam().data_bytes)),
              StatusIs(Code::kBadData, HasSubstr(GetParam().message)));
}

const std::vector<BadHeader> kBadHeaders{
    BadHeader{"InvalidJson", R"({"a":)", 0, "invalid JSON"},
    BadHeader{"EntryIsNoObject", R"({"a":[1]})", 0, "\"a\": is no object"},
    BadHeader{"DuplicateTensor",
              R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
              1, "\"a\" appears twice"},
    BadHeader{"UnknownDtype", R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1,
              "\"a\": unknown dtype \"F4\""},
    BadHeader{"DtypeIsNoText", R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,1]}})", 1,
              "dtype is no text"},
    BadHeader{"NoShape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "shape is no list"},
    BadHeader{"NegativeShape", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1,
              "shape has -1"},
    BadHeader{"FractionalShape", R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1,
              "shape has 1.0"},
    BadHeader{"ShapeBeyondInt64",
              R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1,
              "shape has 9223372036854775808"},
    BadHeader{"ProductOverflows",
              R"({"a":{"dtype":"F64","shape":[2305843009213693952,8],"data_offsets":[0,0]}})", 0,
              "64 bits"},
    BadHeader{"SizeDiffersFromShape", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
              4, "has 8 bytes, data_offsets [0, 4] say 4"},
    BadHeader{"OffsetsReversed", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1,
              "no range"},
    BadHeader{"ThreeOffsets", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1,
              "no range"},
    BadHeader{"OffsetsAreNoNumbers", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":["0",1]}})",
              1, "data_offsets has \"0\""},
    BadHeader{"HoleAtStart", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
              "\"a\" begins at 1, the one before it ends at 0"},
    BadHeader{"HoleInTheMiddle",
              R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
              3, "\"b\" begins at 2, the one before it ends at 1"},
    BadHeader{"Overlap",
              R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
              R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
              3, "\"b\" begins at 1, the one before it ends at 2"},
    BadHeader{"DataLeftOver", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2,
              "tensors end at 1, the data at 2"},
    BadHeader{"DataTooShort", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3,
              "tensors end at 4, the data at 3"},
    BadHeader{"MetadataIsNoObject", R"({"__metadata__":1})", 0, "__metadata__: is no object"},
    BadHeader{"MetadataValueIsNoText", R"({"__metadata__":{"k":1}})", 0, "\"k\" is no text"}};

INSTANTIATE_TEST_SUITE_P(Headers, BadSafetensors, ::testing::ValuesIn(kBadHeaders),
                         [](const auto& test) { return std::string(test.param.claim); });

}  // namespace
}  // namespace paceline::wire

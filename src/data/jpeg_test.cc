#include "data/jpeg.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/crop.h"
#include "data/image_test_util.h"
#include "data/resample.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

// Smooth, and different in every channel and direction, so that compression changes little.
std::uint8_t Slope(std::size_t c, std::size_t x, std::size_t y) {
  const std::size_t value = c == 0 ? 2 * x + 20 : c == 1 ? 3 * y + 10 : x + y;
  return static_cast<std::uint8_t>(std::min<std::size_t>(value, 255));
}

RgbImage DecodeAll(const std::string& file, std::size_t least, Box* place = nullptr) {
  JpegDecoder decoder;
  EXPECT_THAT(decoder.Open(BytesOf(file)), IsOk());
  Box box{0, 0, static_cast<double>(decoder.width()), static_cast<double>(decoder.height())};
  RgbImage image;
  EXPECT_THAT(decoder.Decode(box, least, image), IsOk());
  if (place != nullptr) *place = box;
  return image;
}

TEST(JpegDecoder, GivesWhatWasEncoded) {
  for (const JpegKind kind : {JpegKind::kColour, JpegKind::kProgressive}) {
    const RgbImage image = DecodeAll(EncodeJpeg({.kind = kind, .pixel = &Slope}), 64);
    ASSERT_EQ(image.width, 64U);
    ASSERT_EQ(image.height, 48U);
    for (std::size_t i = 0; i < image.pixels.size(); ++i) {
      ASSERT_NEAR(image.pixels[i], Slope(i % 3, i / 3 % 64, i / 3 / 64), 6) << i;
    }
  }
}

TEST(JpegDecoder, GreyBecomesThreeEqualChannels) {
  const RgbImage image = DecodeAll(EncodeJpeg({.kind = JpegKind::kGrey, .pixel = &Slope}), 64);
  for (std::size_t p = 0; p < 64 * 48; ++p) {
    ASSERT_NEAR(image.pixels[3 * p], Slope(0, p % 64, p / 64), 4);
    ASSERT_EQ(image.pixels[3 * p], image.pixels[3 * p + 1]);
    ASSERT_EQ(image.pixels[3 * p], image.pixels[3 * p + 2]);
  }
}

TEST(JpegDecoder, InkBecomesLightWithAndWithoutAdobesMarker) {
  // Cyan, magenta, yellow, black: 255 is all ink, or none where Adobe's marker says so.
  const auto ink = [](std::size_t c, std::size_t, std::size_t) {
    return static_cast<std::uint8_t>(c == 0 ? 255 : c == 3 ? 51 : 0);
  };
  const RgbImage plain = DecodeAll(EncodeJpeg({.kind = JpegKind::kCmyk, .pixel = ink}), 64);
  EXPECT_NEAR(plain.pixels[0], 0, 4);
  EXPECT_NEAR(plain.pixels[1], 204, 4);
  EXPECT_NEAR(plain.pixels[2], 204, 4);
  const RgbImage adobe = DecodeAll(EncodeJpeg({.kind = JpegKind::kAdobeCmyk, .pixel = ink}), 64);
  EXPECT_NEAR(adobe.pixels[0], 51, 4);
  EXPECT_NEAR(adobe.pixels[1], 0, 4);
}

TEST(JpegDecoder, ScalesDownAsFarAsTheLeastSizeAllows) {
  const std::string file =
      EncodeJpeg({.width = 640, .height = 400, .pixel = [](auto, auto x, auto) {
                    return static_cast<std::uint8_t>(x / 3);
                  }});
  struct Case {
    std::size_t least, width;
  };
  for (const auto& [least, width] : {Case{400, 640}, Case{201, 640}, Case{200, 320}, Case{100, 160},
                                     Case{50, 80}, Case{1, 80}}) {
    Box box;
    const RgbImage image = DecodeAll(file, least, &box);
    EXPECT_EQ(image.width, width) << least;
    EXPECT_EQ(box.width, static_cast<double>(width));
    const std::size_t middle = width / 2;
    EXPECT_NEAR(image.pixels[(image.height / 2 * width + middle) * 3], 640 / 2 / 3, 6);
  }
}

TEST(JpegDecoder, ReadsOnlyThePartThatIsAskedFor) {
  const auto pixel = [](std::size_t c, std::size_t x, std::size_t y) {
    return static_cast<std::uint8_t>(c == 0 ? x / 2 : c == 1 ? y / 2 : 0);
  };
  for (const JpegKind kind : {JpegKind::kColour, JpegKind::kProgressive}) {
    const std::string file =
        EncodeJpeg({.width = 500, .height = 400, .kind = kind, .pixel = pixel});
    JpegDecoder decoder;
    for (const Box wanted : {Box{100, 200, 50, 60}, Box{499, 399, 1, 1}, Box{0.5, 0.5, 33.25, 7}}) {
      ASSERT_THAT(decoder.Open(BytesOf(file)), IsOk());
      Box box = wanted;
      RgbImage image;
      ASSERT_THAT(decoder.Decode(box, 1000, image), IsOk());
      EXPECT_LT(image.width, 120U);
      EXPECT_LT(image.height, 80U);
      ASSERT_GE(image.width, box.x + box.width);
      ASSERT_GE(image.height, box.y + box.height);
      const auto x = static_cast<std::size_t>(box.x), y = static_cast<std::size_t>(box.y);
      const std::uint8_t* const at = image.pixels.data() + (y * image.width + x) * 3;
      EXPECT_NEAR(at[0], wanted.x / 2, 8);
      EXPECT_NEAR(at[1], wanted.y / 2, 8);
    }
  }
}

TEST(JpegDecoder, RefusesWhatIsNoJpegAndGoesOnWithTheNext) {
  JpegDecoder decoder;
  const std::string png("\x89PNG\r\n\x1a\n", 8);
  EXPECT_THAT(decoder.Open(BytesOf(png)), StatusIs(Code::kBadData, HasSubstr("ff d8 ff")));
  EXPECT_THAT(decoder.Open({}), StatusIs(Code::kBadData, HasSubstr("not a JPEG")));
  const std::string start("\xFF\xD8\xFFgarbage that goes on", 23);
  EXPECT_THAT(decoder.Open(BytesOf(start)), StatusIs(Code::kBadData, HasSubstr("JPEG")));
  EXPECT_THAT(decoder.Open(BytesOf(FlatJpeg(20, 10, 1, 2, 3))), IsOk());
  EXPECT_EQ(decoder.width(), 20U);
  EXPECT_EQ(decoder.height(), 10U);
}

TEST(JpegDecoder, ACutFileIsAnErrorWhereverItIsCut) {
  for (const JpegKind kind : {JpegKind::kColour, JpegKind::kProgressive, JpegKind::kGrey}) {
    const std::string file = EncodeJpeg({.kind = kind, .pixel = &Slope});
    JpegDecoder decoder;
    for (std::size_t bytes = 0; bytes + 2 < file.size(); bytes += 13) {
      const std::string cut = file.substr(0, bytes);
      Status status = decoder.Open(BytesOf(cut));
      Box box{0, 0, 64, 48};
      RgbImage image;
      if (status.ok()) status = decoder.Decode(box, 64, image);
      EXPECT_THAT(status, StatusIs(Code::kBadData, HasSubstr("JPEG"))) << bytes;
    }
  }
}

TEST(JpegDecoder, RefusesSizesThatNoPhotographHas) {
  std::string file = FlatJpeg(16, 16, 9, 9, 9);
  const std::size_t frame = file.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\xF0\xF0\xF0\xF0");  // height and width
  JpegDecoder decoder;
  EXPECT_THAT(decoder.Open(BytesOf(file)), StatusIs(Code::kBadData, HasSubstr("61680x61680")));
}

RgbImage Picture(std::size_t width, std::size_t height) {
  RgbImage image{width, height, {}};
  for (std::size_t i = 0; i < width * height * 3; ++i) {
    image.pixels.push_back(Slope(i % 3, i / 3 % width, i / 3 / width));
  }
  return image;
}

TEST(Resampler, LeavesAPictureOfTheRightSizeAsItIs) {
  const RgbImage image = Picture(31, 31);
  std::vector<float> out(3 * 31 * 31);
  Resampler().Run(image, {0, 0, 31, 31}, 31, false, kUnitRange, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t c = i / 961, p = i % 961;
    ASSERT_NEAR(out[i], image.pixels[3 * p + c] / 255.0, 1e-4) << i;
  }
}

// To a fraction of a pixel: discrete triangles do not keep slopes exactly.
TEST(Resampler, KeepsSlopesAtAnySizeAndFlips) {
  const RgbImage image = Picture(90, 70);
  const Box box{5.5, 3.25, 60, 50};
  for (const std::size_t size : {1U, 7U, 50U, 133U}) {
    for (const bool flip : {false, true}) {
      std::vector<float> out(3 * size * size);
      Resampler().Run(image, box, size, flip, kUnitRange, out);
      for (std::size_t p = 0; p < size * size; ++p) {
        const std::size_t column = flip ? size - 1 - p % size : p % size;
        const double step_x = 60.0 / static_cast<double>(size);
        const double step_y = 50.0 / static_cast<double>(size);
        const double x = 5.5 + (static_cast<double>(column) + 0.5) * step_x - 0.5;
        const double y = 3.25 + (static_cast<double>(p / size) + 0.5) * step_y - 0.5;
        if (x < step_x || y < step_y) continue;  // at edges the average is lopsided
        if (x > 89 - step_x || y > 69 - step_y) continue;
        ASSERT_NEAR(out[p] * 255, 2 * x + 20, 0.5) << size << " " << p;
        ASSERT_NEAR(out[size * size + p] * 255, 3 * y + 10, 0.5) << size << " " << p;
      }
    }
  }
}

TEST(Resampler, FlatStaysFlatDownToTheBit) {
  RgbImage image{57, 43, std::vector<std::uint8_t>(57 * 43 * 3, 255)};
  for (const std::size_t size : {5U, 43U, 100U}) {
    std::vector<float> out(3 * size * size);
    Resampler().Run(image, {0.3, 0.7, 50.1, 41.9}, size, false, kUnitRange, out);
    for (const float value : out) ASSERT_EQ(value, out[0]);
    EXPECT_NEAR(out[0], 1, 1e-6);
  }
}

TEST(DrawCrop, StaysInsideWithTheAreasAndShapesOfInception) {
  double least_area = 1, most_area = 0;
  int flips = 0;
  for (std::uint64_t place = 0; place < 4000; ++place) {
    const Crop crop = DrawCrop({testing::TestSeed(), 7, place}, 500, 375);
    const Box& box = crop.box;
    ASSERT_GE(box.x, 0);
    ASSERT_GE(box.y, 0);
    ASSERT_LE(box.x + box.width, 500);
    ASSERT_LE(box.y + box.height, 375);
    ASSERT_NEAR(std::log(box.width / box.height), 0, std::log(4.0 / 3) + 0.02);
    const double area = box.width * box.height / (500 * 375);
    least_area = std::min(least_area, area);
    most_area = std::max(most_area, area);
    flips += crop.flip ? 1 : 0;
  }
  EXPECT_NEAR(least_area, 0.08, 0.01);
  EXPECT_GT(most_area, 0.9);
  EXPECT_NEAR(flips, 2000, 200);
}

TEST(DrawCrop, IsAPureFunctionOfItsArguments) {
  const auto at = [](std::uint64_t seed, std::uint64_t step, std::uint64_t place) {
    const Crop crop = DrawCrop({seed, step, place}, 4000, 3000);
    return std::tuple(crop.box.x, crop.box.y, crop.box.width, crop.box.height, crop.flip);
  };
  EXPECT_EQ(at(1, 2, 3), at(1, 2, 3));
  EXPECT_NE(at(1, 2, 3), at(2, 2, 3));
  EXPECT_NE(at(1, 2, 3), at(1, 3, 3));
  EXPECT_NE(at(1, 2, 3), at(1, 2, 4));
}

TEST(DrawCrop, TakesTheMiddleOfPicturesThatAreTooLong) {
  for (std::uint64_t place = 0; place < 50; ++place) {
    const Box box = DrawCrop({1, 1, place}, 10'000, 10).box;
    EXPECT_LE(box.width, 14);
    EXPECT_LE(box.height, 10);
    const Box one = DrawCrop({1, 1, place}, 1, 1).box;
    EXPECT_EQ(one.width * one.height, 1);
  }
}

TEST(CentreCrop, IsTheMiddleSquareWithoutItsRim) {
  const Box box = CentreCrop(640, 512).box;
  EXPECT_EQ(box.width, 448);
  EXPECT_EQ(box.height, 448);
  EXPECT_EQ(box.x, 96);
  EXPECT_EQ(box.y, 32);
}

}  // namespace
}  // namespace paceline::data

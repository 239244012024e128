#include "ps/shared_floats.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "ps/dense_parts.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using ::testing::_;
using testing::IsOk;
using testing::StatusIs;

constexpr std::size_t kMany = (std::size_t{3} << 20) + 5;  // several threads read them

TEST(SharedFloats, AReaderSeesWhetherTheyChange) {
  SharedFloats floats(kMany);
  {
    const SharedFloats::Change change(floats);
    std::iota(floats.floats().begin(), floats.floats().end(), 1.0F);
  }
  const auto offer = floats.Offer();
  ASSERT_THAT(offer, IsOk());
  const auto reader = FloatsReader::Map(*offer);
  ASSERT_THAT(reader, IsOk());
  ASSERT_EQ(reader->size(), kMany);

  const std::uint64_t changes = floats.changes();
  std::vector<float> part(100);
  reader->Read(kMany - part.size(), part);
  EXPECT_EQ(part.back(), static_cast<float>(kMany));
  EXPECT_TRUE(reader->IsStill(changes));
  EXPECT_FALSE(reader->IsStill(kBeingChanged));
  {
    const SharedFloats::Change change(floats);
    EXPECT_FALSE(reader->IsStill(changes));
    EXPECT_FALSE(reader->IsStill(floats.changes()));  // in the middle
  }
  EXPECT_FALSE(reader->IsStill(changes));
  EXPECT_TRUE(reader->IsStill(floats.changes()));
}

TEST(SharedFloats, ReadersGoToWhereTheirPiecesAre) {
  SharedFloats floats(kMany);
  std::iota(floats.floats().begin(), floats.floats().end(), 1.0F);
  const auto reader = FloatsReader::Map(floats.Offer().value());
  ASSERT_THAT(reader, IsOk());
  const std::vector<DensePiece> pieces{{.tensor = 0, .begin = 10, .count = 7},
                                       {.tensor = 1, .begin = 100, .count = kMany - 7}};
  std::vector<float> all(kMany + 100, -1.0F), expected = all;
  std::iota(expected.begin() + 10, expected.begin() + 17, 1.0F);
  std::iota(expected.begin() + 100, expected.begin() + 93 + kMany, 8.0F);
  ReadDense(*reader, pieces, all);
  EXPECT_EQ(all, expected);
}

TEST(SharedFloats, OnlyTheirOwnerCanWriteThem) {
  SharedFloats floats(kMany);
  MemoryOffer offer = floats.Offer().value();
  offer.use = MemoryUse::kToTrainer;  // as memory that both sides write
  EXPECT_THAT(FetchMemory(offer), StatusIs(Code::kProtocol, _));
}

TEST(SharedFloats, FewAreNotShared) {
  SharedFloats floats(10);
  EXPECT_EQ(floats.floats().size(), 10U);
  EXPECT_THAT(floats.Offer(), StatusIs(Code::kUnavailable, _));
  EXPECT_THAT(SharedFloats(0).Offer(), StatusIs(Code::kUnavailable, _));
}

}  // namespace
}  // namespace paceline::ps

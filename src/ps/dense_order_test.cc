#include "ps/dense_order.h"

#include <numeric>

#include <gmock/gmock.h>

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kRun = std::size_t{256} << 10;

TEST(DenseOrder, TheLastRunIsWholeWhenItComesFirst) {
  EXPECT_THAT(DenseRuns(0, DenseOrder::kFromLast), IsEmpty());
  EXPECT_THAT(DenseRuns(1, DenseOrder::kFromLast), ElementsAre(DenseRun{0, 1}));
  EXPECT_THAT(DenseRuns(kRun, DenseOrder::kFromLast), ElementsAre(DenseRun{0, kRun}));
  EXPECT_THAT(DenseRuns(kRun + 5, DenseOrder::kFromLast),
              ElementsAre(DenseRun{5, kRun}, DenseRun{0, 5}));
  EXPECT_THAT(DenseRuns(kRun + 5, DenseOrder::kFromFirst),
              ElementsAre(DenseRun{0, kRun}, DenseRun{kRun, 5}));
}

// A trainer that puts the floats of an answer where its pieces say has them as they were.
TEST(DenseOrder, PiecesSayWhereTheFloatsOfAnAnswerBelong) {
  const std::vector<DensePiece> pieces{
      {0, 10, 7}, {1, 100, kRun}, {2, 500'000, 1}, {4, 600'000, 9}};
  const std::size_t floats = kRun + 17;
  std::vector<float> server(floats), answer(floats);
  std::iota(server.begin(), server.end(), 1.0F);
  for (const DenseOrder order : {DenseOrder::kFromFirst, DenseOrder::kFromLast}) {
    std::vector<std::size_t> told;
    CopyInOrder(server, order, answer, [&](std::size_t done) { told.push_back(done); });
    EXPECT_THAT(told, ElementsAre(kRun, floats));
    std::vector<float> job(700'000), expected(job.size());
    std::size_t at = 0;
    for (const DensePiece& piece : PiecesInOrder(pieces, order)) {
      std::copy_n(answer.begin() + static_cast<std::ptrdiff_t>(at), piece.count,
                  job.begin() + static_cast<std::ptrdiff_t>(piece.begin));
      at += piece.count;
    }
    EXPECT_EQ(at, floats);
    at = 0;
    for (const DensePiece& piece : pieces) {
      std::copy_n(server.begin() + static_cast<std::ptrdiff_t>(at), piece.count,
                  expected.begin() + static_cast<std::ptrdiff_t>(piece.begin));
      at += piece.count;
    }
    EXPECT_EQ(job, expected);
  }
}

}  // namespace
}  // namespace paceline::ps

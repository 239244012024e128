#include "train/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::train {
namespace {

using testing::IsOk;

// A rank of a group whose ranks run one after the other: it leaves its block on the board and finds
// there what the others left when they ran last.
class BoardRank final : public collective::Engine {
 public:
  BoardRank(std::uint64_t rank, std::uint64_t world, std::vector<std::byte>& board)
      : rank_(rank), layout_(algo::ShardLayout::Even(world, world)), board_(board) {}

  const char* name() const override { return "board"; }
  Rank rank() const override { return rank_; }
  std::uint64_t world() const override { return layout_.shards(); }
  const algo::ShardLayout& layout() const override { return layout_; }
  Status failure() const override { return {}; }
  Result<std::span<float>> Allocate(std::size_t) override { return Unused(); }
  Status AllReduce(std::span<const std::span<float>>) override { return Unused(); }
  Status ReduceScatter(std::span<const std::span<float>>) override { return Unused(); }
  Status AllGather(std::span<std::byte> blocks) override {
    const std::size_t block = blocks.size() / world(), mine = rank_.value() * block;
    board_.resize(blocks.size());
    std::ranges::copy(blocks.subspan(mine, block),
                      board_.begin() + static_cast<std::ptrdiff_t>(mine));
    std::ranges::copy(board_, blocks.begin());
    return {};
  }
  Status Broadcast(std::span<std::byte>, Rank) override { return Unused(); }
  Status Barrier() override { return Unused(); }
  void Abort(const Status&) override {}

 private:
  static Status Unused() { return Status::Error(Code::kUnavailable, "not for this test"); }

  const Rank rank_;
  const algo::ShardLayout layout_;
  std::vector<std::byte>& board_;
};

// Tensors of very different sizes, some of them empty.
struct Gradient {
  Gradient() {
    float value = 0.1F;
    for (const std::size_t size : {3, 0, 1000, 1, 17, 400, 0}) {
      std::vector<float>& tensor = values.emplace_back(size);
      for (float& element : tensor) element = (value *= -1.003F);
    }
    tensors.assign(values.begin(), values.end());
  }
  std::vector<std::vector<float>> values;
  std::vector<std::span<float>> tensors;
};

TEST(GradientNorm, IsTheSameForEveryNumberOfWorkers) {
  const Gradient gradient;
  double squared = 0;
  for (const auto& tensor : gradient.values) {
    for (const float value : tensor) squared += double{value} * double{value};
  }
  const auto alone = GradientNorm(gradient.tensors, nullptr);
  ASSERT_THAT(alone, IsOk());
  EXPECT_NEAR(*alone, std::sqrt(squared), 1e-9 * *alone);
  for (std::uint64_t world = 1; world <= gradient.tensors.size() + 1; ++world) {
    std::vector<std::byte> board;
    for (std::uint64_t turn = 0; turn < 2 * world; ++turn) {
      BoardRank rank(turn % world, world, board);
      const auto norm = GradientNorm(gradient.tensors, &rank);
      ASSERT_THAT(norm, IsOk());
      if (turn + 1 < world) continue;  // some others were not there yet
      EXPECT_EQ(*norm, *alone) << turn % world << " of " << world;
    }
  }
}

TEST(GradientNorm, IsNotFiniteWhereverANanIs) {
  for (const std::size_t tensor : {0, 2, 5}) {
    Gradient gradient;
    gradient.values[tensor].back() = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::byte> board;
    BoardRank last(1, 2, board), first(0, 2, board);
    ASSERT_THAT(GradientNorm(gradient.tensors, &last), IsOk());
    EXPECT_FALSE(std::isfinite(GradientNorm(gradient.tensors, &first).value()));
  }
}

TEST(GradientNorm, OfNothingIsZero) { EXPECT_EQ(GradientNorm({}, nullptr).value(), 0.0); }

}  // namespace
}  // namespace paceline::train

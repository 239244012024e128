#include "fused/geo_copy.h"

#include <gmock/gmock.h>

#include "ps/local_store.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"

namespace paceline::fused {
namespace {

using testing::IsOk;

constexpr std::uint32_t kDim = 2;
constexpr std::uint64_t kFirst = 0, kSecond = 1;

class GeoCopyTest : public ::testing::Test {
 protected:
  GeoCopyTest() : core_(ps::ServerCore::Open({}).value()), store_(*core_) {
    spec_.fingerprint = "geo";
    spec_.trainers = 2;
    spec_.tables.push_back({.options = {.name = "words", .dim = kDim}});
    spec_.dense.push_back({"w", {1, 1}});
    EXPECT_THAT(core_->Configure(spec_), IsOk());
    EXPECT_THAT(store_.Initialise(std::vector<float>{0}), IsOk());
    batch_.ids = {{4, -7, 9}};
  }

  GeoCopy Begin(std::uint64_t trainer) {
    auto copy =
        GeoCopy::Begin(store_, spec_, {.trainer = trainer, .trainers = 2, .lease = trainer});
    EXPECT_THAT(copy, IsOk());
    EXPECT_THAT(copy->Fetch(batch_), IsOk());
    return std::move(copy).value();
  }

  void Learn(GeoCopy& copy) {
    std::ranges::fill(copy.RowsOf(batch_)[0].gradient, 1.0F);
    copy.Apply(batch_, std::vector<float>{1}, 1);
  }

  std::vector<float> RowsOf(GeoCopy& copy) {
    std::vector<float> all;
    for (const float* row : copy.RowsOf(batch_)[0].values) all.insert(all.end(), row, row + kDim);
    return all;
  }

  std::vector<float> RowsOfServer() {
    std::vector<float> all(batch_.ids[0].size() * kDim);
    ps::PullRequest request{.touch = ps::Touch::kPeek};
    request.rows = {{0, batch_.ids[0], all}};
    EXPECT_THAT(store_.Pull(request), IsOk());
    return all;
  }

  ps::JobSpec spec_;
  std::unique_ptr<ps::ServerCore> core_;
  ps::LocalStore store_;
  sparse::SparseBatch batch_;
};

TEST_F(GeoCopyTest, TakesWhatAnotherTrainerLearned) {
  GeoCopy a = Begin(kFirst), b = Begin(kSecond);
  const std::vector<float> before = RowsOf(a);
  Learn(b);
  ASSERT_THAT(b.Exchange(0), IsOk());
  ASSERT_THAT(a.Exchange(0), IsOk());
  EXPECT_NE(RowsOf(a), before);
  EXPECT_EQ(RowsOf(a), RowsOfServer());
}

// The server told what changed, but the answer was lost: nothing may be missed for that.
TEST_F(GeoCopyTest, MissesNothingWhenAnAnswerIsLost) {
  GeoCopy a = Begin(kFirst), b = Begin(kSecond);
  Learn(b);
  ASSERT_THAT(b.Exchange(0), IsOk());
  const auto lost = store_.PullChanged(kFirst, 0, 1);
  ASSERT_THAT(lost, IsOk());
  EXPECT_EQ(lost->ids.size(), batch_.ids[0].size());
  ASSERT_THAT(a.Exchange(0), IsOk());
  EXPECT_EQ(RowsOf(a), RowsOfServer());
  Learn(b);
  ASSERT_THAT(b.Exchange(1), IsOk());
  ASSERT_THAT(a.Exchange(1), IsOk());
  EXPECT_EQ(RowsOf(a), RowsOfServer());
}

}  // namespace
}  // namespace paceline::fused

// Runs under mpirun: every rank runs the same tests on its own engine.
#include "collective/mpi_engine.h"

#include <cstdio>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "collective/engine_conformance_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::collective {

namespace {

using ::testing::_;
using testing::IsOk;
using testing::StatusIs;

class MpiProcess final : public EngineFactory {
 public:
  explicit MpiProcess(std::size_t max_count) : max_count_(max_count) {}
  EngineTraits traits() const override {
    return {.ranks_share_memory = false, .aborts_in_flight = false, .has_deadline = false};
  }
  void RunRanks(const GroupOptions& options, const std::function<void(Engine&)>& body) override {
    const auto mpi = MpiBootstrap::Start();
    ASSERT_THAT(mpi, IsOk());
    const std::uint64_t shards = options.shards_per_rank * mpi->world() + options.extra_shards;
    auto engine = MakeMpiEngine(
        {.layout = algo::ShardLayout::Even(shards, mpi->world()), .max_count = max_count_});
    ASSERT_THAT(engine, IsOk());
    body(**engine);
    // No engine dies before all ranks are done.
    EXPECT_THAT(mpi->Exchange(""), IsOk());
  }

 private:
  const std::size_t max_count_;
};

EngineCase MpiCase(std::size_t max_count) {
  return {.engine = "mpi",
          .make = [max_count](std::uint64_t) { return std::make_unique<MpiProcess>(max_count); }};
}

INSTANTIATE_TEST_SUITE_P(Mpi, EngineConformance, ::testing::Values(MpiCase(MpiOptions().max_count)),
                         EngineCaseName);
// As if an int could not hold the sizes of the suite.
INSTANTIATE_TEST_SUITE_P(MpiChunked, EngineConformance, ::testing::Values(MpiCase(999)),
                         EngineCaseName);

TEST(MpiBootstrap, ExchangesBlobsOfDifferentLength) {
  const auto mpi = MpiBootstrap::Start();
  ASSERT_THAT(mpi, IsOk());
  const auto blob = [](std::uint64_t rank) {
    return rank == 1 ? std::string() : std::string(rank * 3 + 1, static_cast<char>('a' + rank));
  };
  const auto blobs = mpi->Exchange(blob(mpi->rank().value()));
  ASSERT_THAT(blobs, IsOk());
  ASSERT_EQ(blobs->size(), mpi->world());
  for (std::uint64_t r = 0; r < mpi->world(); ++r) EXPECT_EQ((*blobs)[r], blob(r));
}

TEST(MpiEngine, TheLayoutMustFitTheJob) {
  const auto mpi = MpiBootstrap::Start();
  ASSERT_THAT(mpi, IsOk());
  const std::uint64_t wrong = mpi->world() + 1;
  EXPECT_THAT(MakeMpiEngine({.layout = algo::ShardLayout::Even(wrong, wrong)}),
              StatusIs(Code::kMismatch, _));
}

}  // namespace

}  // namespace paceline::collective

int main(int argc, char** argv) {
  using paceline::collective::MpiBootstrap;
  ::testing::InitGoogleMock(&argc, argv);
  const auto mpi = MpiBootstrap::Start();
  if (!mpi.ok()) {
    std::printf("%s\n", mpi.status().ToString().c_str());
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  const bool finalized = MpiBootstrap::Finalize().ok();
  return finalized ? result : 1;
}

#include "collective/gloo_engine.h"

#include <gmock/gmock.h>

#include "collective/engine_conformance_test_util.h"
#include "testing/status_matchers.h"

// libgloo forgets what getaddrinfo gave it when it cannot bind the address.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDeviceAttr";
}

namespace paceline::collective {

namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

class GlooThreads final : public EngineFactory {
 public:
  explicit GlooThreads(std::uint64_t world) : world_(world) {}
  EngineTraits traits() const override { return {}; }
  void RunRanks(const GroupOptions& options, const std::function<void(Engine&)>& body) override {
    BlobMeeting meeting(world_);
    const auto layout =
        algo::ShardLayout::Even(options.shards_per_rank * world_ + options.extra_shards, world_);
    const auto make = [&](Rank rank) {
      return MakeGlooEngine({.rank = rank,
                             .layout = layout,
                             .timeout = options.timeout,
                             .bootstrap = [&meeting, rank](const std::string& mine) {
                               return meeting.Exchange(rank, mine);
                             }});
    };
    RunInThreads(world_, make, body);
  }

 private:
  const std::uint64_t world_;
};

INSTANTIATE_TEST_SUITE_P(
    Gloo, EngineConformance,
    ::testing::ValuesIn(EngineCases(
        {.engine = "gloo",
         .make = [](std::uint64_t world) { return std::make_unique<GlooThreads>(world); }})),
    EngineCaseName);

TEST(GlooEngine, NeedsAWayToFindItsPeers) {
  EXPECT_THAT(MakeGlooEngine({.layout = algo::ShardLayout::Even(2, 2)}),
              StatusIs(Code::kInvalidArgument, HasSubstr("bootstrap")));
  EXPECT_THAT(MakeGlooEngine({.rank = Rank(1)}), StatusIs(Code::kInvalidArgument, _));
}

TEST(GlooEngine, AFailedBootstrapIsTheCause) {
  const auto no_peers = [](const std::string&) -> Result<std::vector<std::string>> {
    return Status::Error(Code::kUnauthenticated, "wrong secret");
  };
  EXPECT_THAT(MakeGlooEngine({.layout = algo::ShardLayout::Even(2, 2), .bootstrap = no_peers}),
              StatusIs(Code::kUnauthenticated, HasSubstr("gloo rank 0")));
}

TEST(GlooEngine, StrangeBlobsAreRefused) {
  for (const std::vector<std::string>& blobs :
       {std::vector<std::string>{}, {"", "short"}, {"a", "b", "c"}}) {
    const auto strange = [&](const std::string&) -> Result<std::vector<std::string>> {
      return blobs;
    };
    EXPECT_THAT(MakeGlooEngine({.layout = algo::ShardLayout::Even(2, 2), .bootstrap = strange}),
                StatusIs(Code::kProtocol, _));
  }
}

TEST(GlooEngine, AnAddressOfAnotherHostIsUnavailable) {
  const auto not_reached = [](const std::string& mine) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{mine, mine};
  };
  EXPECT_THAT(MakeGlooEngine({.layout = algo::ShardLayout::Even(2, 2),
                              .address = "192.0.2.1",
                              .bootstrap = not_reached}),
              StatusIs(Code::kUnavailable, _));
}

}  // namespace

}  // namespace paceline::collective

#include "bench/perf_rank.h"

#include <sys/socket.h>

#include <thread>

#include <gmock/gmock.h>

#include "base/thread.h"
#include "bench/json_reader.h"
#include "bench/perf_engine.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

// An engine of one rank that can be told to err.
class LonelyEngine final : public collective::Engine {
 public:
  const char* name() const override { return "lonely"; }
  Rank rank() const override { return Rank(0); }
  std::uint64_t world() const override { return 1; }
  const algo::ShardLayout& layout() const override { return layout_; }
  Status failure() const override { return failure_; }
  Result<std::span<float>> Allocate(std::size_t floats) override {
    return std::span<float>(memory_.emplace_back(floats));
  }
  Status AllReduce(std::span<const std::span<float>> parts) override {
    ++operations;
    if (wrong && parts[0].size() > 2) parts[0][2] += 1;
    return failure_;
  }
  Status ReduceScatter(std::span<const std::span<float>> parts) override {
    return AllReduce(parts);
  }
  Status AllGather(std::span<std::byte>) override { return failure_; }
  Status Broadcast(std::span<std::byte>, Rank) override { return failure_; }
  Status Barrier() override { return failure_; }
  void Abort(const Status& why) override { failure_ = why; }

  bool wrong = false;
  int operations = 0;

 private:
  Status failure_;
  const algo::ShardLayout layout_ = algo::ShardLayout::Even(1, 1);
  std::vector<std::vector<float>> memory_;
};

TEST(PerfRank, CountsIterationsAndWrongElements) {
  LonelyEngine engine;
  PerfRank rank(engine, SystemClock());
  const auto good = rank.Measure({.bytes = 400, .iterations = 7, .warmup = 2});
  ASSERT_THAT(good, IsOk());
  EXPECT_EQ(good->iterations, 7);
  EXPECT_EQ(good->wrong, 0);
  EXPECT_EQ(engine.operations, 2 + 7 + 1);
  EXPECT_LE(good->min_us, good->p50_us);
  EXPECT_LE(good->p99_us, good->max_us);
  engine.wrong = true;
  EXPECT_EQ(rank.Measure({.bytes = 400})->wrong, 1);
  EXPECT_EQ(rank.Measure({.bytes = 400, .check = false})->wrong, -1);
}

TEST(PerfRank, AFailedOperationIsTheAnswer) {
  LonelyEngine engine;
  engine.Abort(Status::Error(Code::kPeerLost, "lost rank 1"));
  PerfRank rank(engine, SystemClock());
  EXPECT_THAT(rank.Measure({.bytes = 400}), StatusIs(Code::kPeerLost, HasSubstr("lost rank 1")));
}

TEST(PerfRank, EveryCollectiveIsCheckedOnEveryRank) {
  const testing::TempDir meeting;
  constexpr std::uint64_t kWorld = 3;
  std::vector<std::jthread> threads;
  for (std::uint64_t r = 0; r < kWorld; ++r) {
    threads.push_back(StartThread("rank", [&, r] {
      auto group = MakePerfGroup(
          {.name = "native", .rank = Rank(r), .world = kWorld, .meeting = meeting.path()});
      ASSERT_THAT(group, IsOk());
      PerfRank rank((*group)->engine(), SystemClock());
      for (const PerfOp op : {PerfOp::kAllReduce, PerfOp::kAllGather, PerfOp::kReduceScatter,
                              PerfOp::kBroadcast, PerfOp::kLatency}) {
        for (const std::size_t bytes : {4U, 100U, 40'000U}) {
          const auto sample = rank.Measure({.op = op, .bytes = bytes, .iterations = 3});
          ASSERT_THAT(sample, IsOk());
          EXPECT_EQ(sample->wrong, 0) << PerfOpName(op) << " of " << bytes;
          EXPECT_EQ(sample->rank, r);
        }
      }
      EXPECT_THAT((*group)->Leave(), IsOk());
    }));
  }
}

TEST(PerfEngine, AnUnknownEngineIsUnavailable) {
  EXPECT_THAT(MakePerfGroup({.name = "pigeon"}), StatusIs(Code::kUnavailable, _));
}

TEST(PerfEngine, AMissingRankEndsTheExchange) {
  const testing::TempDir folder;
  EXPECT_THAT(FolderExchange(folder.path(), Rank(0), 2, 10ms)("blob"),
              StatusIs(Code::kTimeout, HasSubstr("rank-1")));
}

// Talks to ServePerf() as the driver does.
class Serving : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    driver_.emplace(UniqueFd(fds[0]));
    rank_.emplace(UniqueFd(fds[1]));
    thread_ = StartThread(
        "rank", [this] { status_ = ServePerf(engine_, "lonely", SystemClock(), *rank_); });
    const auto ready = driver_->ReadLine(20s);
    ASSERT_THAT(ready, IsOk());
    EXPECT_TRUE(JsonReader::Parse(*ready)->Flag("ready"));
  }
  Result<std::string> Ask(const std::string& command) {
    PACELINE_TRY(driver_->WriteLine(command));
    return driver_->ReadLine(20s);
  }
  Status End() {
    thread_.join();
    return status_;
  }

  LonelyEngine engine_;
  std::optional<PerfChannel> driver_, rank_;
  Status status_;
  std::jthread thread_;
};

TEST_F(Serving, AnswersRunsUntilQuit) {
  const auto answer = Ask("run size=4096 iters=3 warmup=1 check=1");
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(SampleFromJson(*answer)->iterations, 3);
  const auto quit = Ask("quit");
  ASSERT_THAT(quit, IsOk());
  EXPECT_GT(JsonReader::Parse(*quit)->Integer("max_rss_bytes"), 0);
  EXPECT_THAT(End(), IsOk());
}

TEST_F(Serving, SaysWhatWentWrongAndEnds) {
  EXPECT_THAT(*Ask("run size=nothing"), HasSubstr("error"));
  EXPECT_THAT(End(), StatusIs(Code::kInvalidArgument, _));
}

TEST_F(Serving, EndsWithItsDriver) {
  driver_.reset();
  EXPECT_THAT(End(), StatusIs(Code::kPeerLost, _));
}

}  // namespace
}  // namespace paceline::bench

#include "bench/perf_case.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::bench {
namespace {

using ::testing::_;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(PerfCase, SuffixesOfSizesAreBinary) {
  EXPECT_EQ(*ParseSize("4096"), 4096U);
  EXPECT_EQ(*ParseSize("4K"), 4096U);
  EXPECT_EQ(*ParseSize("64m"), 64U << 20);
  EXPECT_EQ(*ParseSize("2G"), 2ULL << 30);
  for (const char* wrong :
       {"", "K", "4KB", "-1", "1.5M", " 4", "99999999999999999999", "99999999999G"}) {
    EXPECT_THAT(ParseSize(wrong), StatusIs(Code::kInvalidArgument, HasSubstr("not a size")))
        << wrong;
  }
}

TEST(PerfCase, WholeSizesAreWrittenWithASuffix) {
  EXPECT_EQ(FormatSize(4096), "4K");
  EXPECT_EQ(FormatSize(64 << 20), "64M");
  EXPECT_EQ(FormatSize(1000), "1000");
  EXPECT_EQ(FormatSize(0), "0");
}

TEST(PerfCase, SizesGrowByAFactorUpToTheLargest) {
  EXPECT_THAT(*ListSizes({.min_bytes = 4, .max_bytes = 100, .factor = 4}), ElementsAre(4, 16, 64));
  EXPECT_THAT(*ListSizes({.min_bytes = 64, .max_bytes = 64, .factor = 2}), ElementsAre(64));
  EXPECT_THAT(ListSizes({.min_bytes = 3}), StatusIs(Code::kInvalidArgument, _));
  EXPECT_THAT(ListSizes({.min_bytes = 8, .max_bytes = 4}), StatusIs(Code::kInvalidArgument, _));
  EXPECT_THAT(ListSizes({.factor = 1}), StatusIs(Code::kInvalidArgument, HasSubstr("factor")));
}

TEST(PerfCase, SharedBuffersAreDividedEqually) {
  const PerfShape gather = ShapeOf(PerfOp::kAllGather, 100, 3);
  EXPECT_EQ(gather.count, 8U);  // floats of each rank
  EXPECT_EQ(gather.bytes, 96U);
  EXPECT_EQ(gather.redop, "none");
  EXPECT_EQ(ShapeOf(PerfOp::kReduceScatter, 4, 3).bytes, 12U);  // at least one each
  EXPECT_EQ(ShapeOf(PerfOp::kAllReduce, 102, 3).bytes, 100U);
  EXPECT_EQ(ShapeOf(PerfOp::kAllReduce, 100, 3).root, -1);
  EXPECT_EQ(ShapeOf(PerfOp::kBroadcast, 100, 3).root, 0);
}

TEST(PerfCase, BusFactorsAreThoseOfNcclTests) {
  EXPECT_THAT(BusFactor(PerfOp::kAllReduce, 4), DoubleEq(1.5));
  EXPECT_THAT(BusFactor(PerfOp::kAllGather, 4), DoubleEq(0.75));
  EXPECT_THAT(BusFactor(PerfOp::kReduceScatter, 4), DoubleEq(0.75));
  EXPECT_THAT(BusFactor(PerfOp::kBroadcast, 4), DoubleEq(1));
  EXPECT_THAT(BusFactor(PerfOp::kAllReduce, 1), DoubleEq(0));
}

TEST(PerfCase, IterationsFallWithTheSize) {
  EXPECT_EQ(DefaultIterations(4), 1000);
  EXPECT_EQ(DefaultIterations(1 << 20), 64);
  EXPECT_EQ(DefaultIterations(1 << 30), 5);
}

TEST(PerfCase, ACommandIsReadAsItWasWritten) {
  const PerfStep step{
      .op = PerfOp::kBroadcast, .bytes = 12345, .iterations = 7, .warmup = 0, .check = false};
  EXPECT_EQ(ToCommand(step), "run op=broadcast size=12345 iters=7 warmup=0 check=0");
  const auto read = ParseCommand(ToCommand(step));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(ToCommand(*read), ToCommand(step));
}

TEST(PerfCase, WrongCommandsAreRefused) {
  for (const char* wrong : {"", "walk", "run ", "run size=0", "run size=-4", "run size=4 iters=0",
                            "run size=4 op=alltoall", "run size=4 check=2", "run size=4 colour=1",
                            "run size=4 iters"}) {
    EXPECT_THAT(ParseCommand(wrong), StatusIs(Code::kInvalidArgument, _)) << wrong;
  }
}

TEST(PerfCase, ASampleIsReadAsItWasWritten) {
  const PerfSample sample{.rank = 3,
                          .seconds = 0.25,
                          .iterations = 20,
                          .min_us = 1,
                          .p50_us = 2,
                          .p95_us = 3,
                          .p99_us = 4,
                          .max_us = 5,
                          .wrong = -1,
                          .sent_bytes = 4096};
  const auto read = SampleFromJson(ToJson(sample));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(ToJson(*read), ToJson(sample));
  EXPECT_THAT(SampleFromJson(R"({"error":"lost rank 1"})"), StatusIs(Code::kProtocol, _));
}

}  // namespace
}  // namespace paceline::bench

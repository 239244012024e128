#include "job/trace.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using std::chrono::milliseconds;
using ::testing::_;
using testing::IsOk;
using testing::StatusIs;

TEST(Trace, BecomesAFileThatBrowsersShow) {
  Trace trace;
  trace.Span("forward", Trace::Track::kCompute, milliseconds(101), milliseconds(103));
  trace.Span("bucket 0 (4 MB)", Trace::Track::kReduce, milliseconds(102), milliseconds(106));
  const testing::TempDir dir;
  const std::string path = (dir.path() / "trace.json").string();
  const std::vector<RankTrace> ranks{{Rank(0), "a", EncodeTrace(trace, milliseconds(100))},
                                     {Rank(1), "b", EncodeTrace(trace, milliseconds(101))}};
  ASSERT_THAT(WriteChromeTrace(path, ranks), IsOk());
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  int spans = 0, begins = 0, ends = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X") {
      ++spans;
      EXPECT_EQ(event["name"], "forward");
      EXPECT_DOUBLE_EQ(event["ts"], event["pid"] == 0 ? 1000.0 : 0.0);
      EXPECT_DOUBLE_EQ(event["dur"], 2000.0);
    }
    begins += event["ph"] == "b" ? 1 : 0;
    ends += event["ph"] == "e" ? 1 : 0;
  }
  EXPECT_EQ(spans, 2);
  EXPECT_EQ(begins, 2);
  EXPECT_EQ(ends, 2);
}

TEST(Trace, KeepsTheFirstEventsWhenItIsFull) {
  Trace trace(2);
  for (int i = 0; i < 5; ++i) {
    trace.Span(std::to_string(i), Trace::Track::kCompute, milliseconds(i), milliseconds(i + 1));
  }
  EXPECT_EQ(trace.Events().size(), 2U);
  EXPECT_EQ(trace.dropped(), 3U);
}

TEST(Trace, ForeignBytesAreRefused) {
  const testing::TempDir dir;
  const std::vector<RankTrace> ranks{{Rank(0), "a", "not a trace\n"}};
  EXPECT_THAT(WriteChromeTrace((dir.path() / "t").string(), ranks), StatusIs(Code::kProtocol, _));
}

}  // namespace
}  // namespace paceline::job

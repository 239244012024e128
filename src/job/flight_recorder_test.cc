#include "job/flight_recorder.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FlightRecorderTest, KeepsTheLastEntriesInOrder) {
  const testing::TempDir dir;
  FakeClock clock;
  FlightRecorder recorder(clock, 3);
  for (std::uint64_t step = 0; step < 5; ++step) {
    recorder.Add("forward", step, 7);
    clock.Advance(std::chrono::seconds(1));
  }
  const std::string path = (dir.path() / "flight.jsonl").string();
  ASSERT_THAT(recorder.Dump(path, "rank 1 is gone"), IsOk());
  const std::string text = Read(path);
  EXPECT_THAT(text, HasSubstr("rank 1 is gone"));
  EXPECT_THAT(text, Not(HasSubstr(R"("step": 1)")));
  EXPECT_LT(text.find(R"("seconds_ago": 3)"), text.find(R"("seconds_ago": 1)"));
  EXPECT_THAT(text, HasSubstr(R"("what": "forward", "step": 4, "detail": 7)"));
}

TEST(FlightRecorderTest, AFileThatCannotBeWrittenIsAnError) {
  FlightRecorder recorder(SystemClock());
  EXPECT_THAT(recorder.Dump("/nowhere/flight.jsonl", "why"),
              testing::StatusIs(Code::kDisk, HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace paceline::job

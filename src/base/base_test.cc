// The small vocabulary types that have no file of their own: ids, clock, log, descriptors.
#include <fcntl.h>

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <unordered_set>

#include <gmock/gmock.h>

#include "base/clock.h"
#include "base/ids.h"
#include "base/line_vector.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "testing/temp_dir.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Ids, TagsDoNotMix) {
  static_assert(!std::is_convertible_v<Rank, Step>);
  static_assert(!std::is_convertible_v<int, Rank>);
  EXPECT_LT(Step(1), Step(1).Next());
  EXPECT_EQ((std::unordered_set<Rank>{Rank(1), Rank(1), Rank(2)}.size()), 2U);
}

TEST(LineVector, BeginsWithALineHoweverLongItGrows) {
  LineVector<float> floats;
  for (const std::size_t size : {1U, 17U, 1000U}) {
    floats.resize(size, 1.0F);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.data()) % 64, 0U) << size;
  }
  EXPECT_EQ(floats, LineVector<float>(1000, 1.0F));
}

TEST(FakeClock, StandsStillUntilAdvanced) {
  FakeClock clock;
  const Instant start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(std::chrono::seconds(2));
  EXPECT_EQ(ToSeconds(clock.Now() - start), 2.0);
}

TEST(Log, HonoursGlogVariables) {
  const std::map<std::string, const char*> env{{"GLOG_v", "3"}, {"GLOG_logtostderr", "1"}};
  const LogOptions options = LogOptionsFromEnvironment([&](const char* name) {
    const auto found = env.find(name);
    return found == env.end() ? nullptr : found->second;
  });
  EXPECT_EQ(options.verbosity, 3);
  EXPECT_TRUE(options.info_to_stderr);
  EXPECT_EQ(LogOptionsFromEnvironment([](const char*) { return nullptr; }).verbosity, 0);
}

TEST(Log, WritesTheLevelsThatAreOnToTheFile) {
  const testing::TempDir dir;
  SetLogOptions({.verbosity = 1, .info_to_stderr = false});
  ASSERT_TRUE(SetLogFile(dir / "log.txt"));
  PACELINE_LOG(Info, "step {}", 7);
  PACELINE_VLOG(1, "shown");
  PACELINE_VLOG(2, "hidden");
  ASSERT_TRUE(SetLogFile(""));
  const std::string text = testing::ReadFile(dir / "log.txt");
  EXPECT_THAT(text, HasSubstr("base_test.cc:"));
  EXPECT_THAT(text, HasSubstr("] step 7\n"));
  EXPECT_THAT(text, HasSubstr("shown"));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
  SetLogOptions({});
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  UniqueFd first(::open("/dev/null", O_RDONLY));
  const int raw = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): moved-from means empty
  second.Reset();
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
}

}  // namespace
}  // namespace paceline

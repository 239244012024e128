#include "ps/change_recorder.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

TEST(ChangeRecorder, EachTrainerGetsWhatChangedSinceItAsked) {
  ChangeRecorder recorder;
  const std::vector<std::int64_t> first{7, -2}, second{7, 9};
  recorder.Changed(0, first);  // nobody records yet
  EXPECT_THAT(*recorder.Take(5, 0), IsEmpty());
  recorder.Changed(0, first);
  recorder.Changed(1, second);  // another table
  EXPECT_THAT(*recorder.Take(6, 0), IsEmpty());
  recorder.Changed(0, second);
  EXPECT_THAT(*recorder.Take(5, 0), ElementsAre(-2, 7, 9));
  EXPECT_THAT(*recorder.Take(6, 0), ElementsAre(7, 9));
  EXPECT_THAT(*recorder.Take(5, 0), IsEmpty());
}

TEST(ChangeRecorder, WhoAsksTooLateIsToldAndBeginsAnew) {
  ChangeRecorder recorder(2);
  const std::vector<std::int64_t> two{1, 2}, third{3};
  EXPECT_THAT(*recorder.Take(0, 0), IsEmpty());
  recorder.Changed(0, two);
  recorder.Changed(0, third);
  recorder.Changed(0, third);
  EXPECT_THAT(recorder.Take(0, 0), StatusIs(Code::kUnavailable, HasSubstr("more than 2 rows")));
  recorder.Changed(0, third);
  EXPECT_THAT(*recorder.Take(0, 0), ElementsAre(3));
}

}  // namespace
}  // namespace paceline::ps

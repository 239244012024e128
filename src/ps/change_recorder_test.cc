#include "ps/change_recorder.h"

#include <gmock/gmock.h>

namespace paceline::ps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

using Taken = ChangeRecorder::Taken;

const auto kRestarted = AllOf(Field(&Taken::restarted, true), Field(&Taken::ids, IsEmpty()));

template <typename Ids>
auto Took(Ids ids) {
  return AllOf(Field(&Taken::restarted, false), Field(&Taken::ids, ids));
}

TEST(ChangeRecorder, EachTrainerGetsWhatChangedSinceItAsked) {
  ChangeRecorder recorder;
  const std::vector<std::int64_t> first{7, -2}, second{7, 9};
  recorder.Changed(0, first);  // nobody records yet
  EXPECT_THAT(recorder.Take(5, 0, 0), kRestarted);
  recorder.Changed(0, first);
  recorder.Changed(1, second);  // another table
  EXPECT_THAT(recorder.Take(6, 0, 0), kRestarted);
  recorder.Changed(0, second);
  EXPECT_THAT(recorder.Take(5, 0, 1), Took(ElementsAre(-2, 7, 9)));
  EXPECT_THAT(recorder.Take(6, 0, 1), Took(ElementsAre(7, 9)));
  EXPECT_THAT(recorder.Take(5, 0, 2), Took(IsEmpty()));
}

// A lost answer, a trainer that began anew, and one that knew another server: none may miss rows.
TEST(ChangeRecorder, ACallThatIsNotExpectedBeginsAnew) {
  ChangeRecorder recorder;
  const std::vector<std::int64_t> one{1}, two{2};
  EXPECT_THAT(recorder.Take(0, 0, 17), kRestarted);
  recorder.Changed(0, one);
  EXPECT_THAT(recorder.Take(0, 0, 18), Took(ElementsAre(1)));
  recorder.Changed(0, two);
  EXPECT_THAT(recorder.Take(0, 0, 18), kRestarted);
  EXPECT_THAT(recorder.Take(0, 0, 0), kRestarted);
  recorder.Changed(0, two);
  EXPECT_THAT(recorder.Take(0, 0, 1), Took(ElementsAre(2)));
}

TEST(ChangeRecorder, WhoAsksTooLateIsToldAndBeginsAnew) {
  ChangeRecorder recorder(2);
  const std::vector<std::int64_t> two{1, 2}, third{3};
  EXPECT_THAT(recorder.Take(0, 0, 0), kRestarted);
  recorder.Changed(0, two);
  recorder.Changed(0, third);
  recorder.Changed(0, third);
  EXPECT_THAT(recorder.Take(0, 0, 1), kRestarted);
  recorder.Changed(0, third);
  EXPECT_THAT(recorder.Take(0, 0, 2), Took(ElementsAre(3)));
}

}  // namespace
}  // namespace paceline::ps

#include "job/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(ChaosTest, ReadsEveryKindAndSortsBySteps) {
  const auto events = ParseChaos(
      "join=@step100,kill=worker:1@step40,stop=worker:2@step60:6s,cut=worker:0@step80:500ms,"
      "leave=worker:1@step90,kill=coordinator@step110",
      3, 200);
  ASSERT_TRUE(events.ok()) << events.status().message();
  EXPECT_THAT(
      *events,
      ElementsAre(ChaosEvent{.kind = ChaosKind::kKill, .worker = 1, .step = 40},
                  ChaosEvent{.kind = ChaosKind::kStop, .worker = 2, .step = 60, .duration = 6s},
                  ChaosEvent{.kind = ChaosKind::kCut, .worker = 0, .step = 80, .duration = 500ms},
                  ChaosEvent{.kind = ChaosKind::kLeave, .worker = 1, .step = 90},
                  ChaosEvent{.kind = ChaosKind::kJoin, .step = 100},
                  ChaosEvent{.kind = ChaosKind::kKill, .coordinator = true, .step = 110}));
}

TEST(ChaosTest, NamesThePartThatIsWrong) {
  for (const char* text :
       {"kill", "kill=worker:1", "kill=worker:9@step1", "stop=worker:1@step4",
        "burn=worker:1@step4", "stop=worker:1@step4:6h", "kill=worker:x@step4",
        "kill=worker:1@step4:6s", "random=1", "join=worker:1@step4", "stop=coordinator@step4:1s"}) {
    EXPECT_THAT(ParseChaos(std::string("join=@step1,") + text, 3, 200),
                StatusIs(Code::kInvalidArgument, HasSubstr(std::string("'") + text + "'")))
        << text;
  }
}

TEST(ChaosTest, ServersAndTrainersAreKilledAndStopped) {
  const auto events =
      ParseServerChaos("kill=trainer:0@step60,kill=server:1@step40,stop=server:0@step50:500ms",
                       {.trainers = 1, .servers = 2, .steps = 100});
  ASSERT_TRUE(events.ok()) << events.status().message();
  EXPECT_THAT(
      *events,
      ElementsAre(
          ChaosEvent{.kind = ChaosKind::kKill, .server = true, .worker = 1, .step = 40},
          ChaosEvent{
              .kind = ChaosKind::kStop, .server = true, .worker = 0, .step = 50, .duration = 500ms},
          ChaosEvent{.kind = ChaosKind::kKill, .worker = 0, .step = 60}));
  EXPECT_EQ(events->front().Describe(), "kill server 1 at step 40");
  for (const char* text : {"kill=server:2@step1", "kill=trainer:1@step1", "kill=worker:0@step1",
                           "kill=coordinator@step1", "cut=server:0@step1:1s", "join=@step1"}) {
    EXPECT_THAT(ParseServerChaos(text, {.trainers = 1, .servers = 2, .steps = 100}),
                StatusIs(Code::kInvalidArgument, HasSubstr(std::string("'") + text + "'")));
  }
  EXPECT_FALSE(ParseChaos("kill=server:0@step1", 3, 200).ok());
}

TEST(ChaosTest, RandomFaultsHitServersAndTrainers) {
  const auto events = ParseServerChaos("random=7:40", {.trainers = 3, .servers = 2, .steps = 200});
  ASSERT_TRUE(events.ok());
  std::size_t servers = 0;
  for (const ChaosEvent& event : *events) {
    EXPECT_LT(event.worker, event.server ? 2U : 3U);
    EXPECT_TRUE(event.kind == ChaosKind::kKill || event.kind == ChaosKind::kStop);
    servers += event.server ? 1 : 0;
  }
  EXPECT_GT(servers, 0U);
  EXPECT_LT(servers, events->size());
}

TEST(ChaosTest, RandomFaultsComeFromTheSeed) {
  const auto one = ParseChaos("random=7:20", 3, 200), again = ParseChaos("random=7:20", 3, 200),
             other = ParseChaos("random=8:20", 3, 200);
  ASSERT_TRUE(one.ok() && again.ok() && other.ok());
  EXPECT_EQ(one->size(), 20U);
  EXPECT_EQ(*one, *again);
  EXPECT_NE(*one, *other);
  for (const ChaosEvent& event : *one) {
    EXPECT_GE(event.step, 1U);
    EXPECT_LT(event.step, 200U);
    EXPECT_LT(event.worker, 3U);
  }
}

TEST(ChaosTest, NothingIsNoChaos) {
  const auto events = ParseChaos("", 3, 200);
  ASSERT_TRUE(events.ok());
  EXPECT_TRUE(events->empty());
}

TEST(ChaosTest, TrainersOfAnElasticRunComeAndGo) {
  const ServerChaosTargets targets{.trainers = 2, .servers = 1, .steps = 100, .elastic = true};
  const auto events = ParseServerChaos(
      "leave=trainer:1@step10,join=@step20,kill=coordinator@step30,kill=server:0@step40", targets);
  ASSERT_TRUE(events.ok()) << events.status().message();
  ASSERT_EQ(events->size(), 4U);
  EXPECT_EQ((*events)[0], (ChaosEvent{.kind = ChaosKind::kLeave, .worker = 1, .step = 10}));
  EXPECT_EQ((*events)[1].kind, ChaosKind::kJoin);
  EXPECT_TRUE((*events)[2].coordinator);
  EXPECT_TRUE((*events)[3].server);
  for (const char* text : {"leave=server:0@step1", "cut=trainer:0@step1:1s"}) {
    EXPECT_THAT(ParseServerChaos(text, targets), StatusIs(Code::kInvalidArgument, HasSubstr(text)));
  }
  for (const char* text : {"leave=trainer:1@step10", "join=@step20", "kill=coordinator@step30"}) {
    EXPECT_FALSE(ParseServerChaos(text, {.trainers = 2, .servers = 1, .steps = 100}).ok()) << text;
  }
}

}  // namespace
}  // namespace paceline::job

#include "job/blame.h"

#include <gmock/gmock.h>

namespace paceline::job {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Links = std::vector<collective::Engine::Link>;

TEST(LinkWatch, NamesTheLinkThatWasBusyLongest) {
  LinkWatch watch;
  EXPECT_EQ(watch.Sample(Links{{Rank(1), 1, 10'000'000}, {Rank(2), 1, 10'000'000}}, 10).share, 0);
  const BusyLink link = watch.Sample(Links{{Rank(1), 2, 20'000'000}, {Rank(2), 9, 18'000'000}}, 10);
  EXPECT_EQ(link.to, Rank(2));
  EXPECT_DOUBLE_EQ(link.share, 0.8);
  EXPECT_DOUBLE_EQ(link.bytes_per_second, 1e6);
}

TEST(LinkWatch, CountersThatBeganAnewSayNothing) {
  LinkWatch watch;
  watch.Sample(Links{{Rank(1), 5, 50}}, 10);
  EXPECT_EQ(watch.Sample(Links{{Rank(1), 1, 10}}, 10).share, 0);
}

TEST(BlameReport, NamesWorkerAndLink) {
  BlameReport report(60s);
  report.Restart(Instant(0s));
  const BusyLink slow{Rank(0), 0.7, 1.2e6};
  for (int i = 0; i < 4; ++i) {
    report.Add(std::vector<double>{0.1, 0.1, 0.2}, std::vector<BusyLink>{{}, {}, slow}, 0.25);
  }
  EXPECT_FALSE(report.Due(Instant(59s)));
  EXPECT_TRUE(report.Due(Instant(60s)));
  const auto blame = report.Take(Instant(60s));
  ASSERT_TRUE(blame);
  EXPECT_TRUE(blame->notable);
  EXPECT_EQ(blame->text,
            "in 60 s rank 2 was last in 100 % of 4 steps; the others waited 100.0 ms a step for it "
            "on average; the link from rank 2 to rank 0 was busy 70 % of the time, 1.2 MB/s");
  EXPECT_FALSE(report.Take(Instant(120s)));  // nothing since
}

TEST(BlameReport, WhatIsInOrderIsNotNotable) {
  BlameReport report(60s);
  report.Restart(Instant(0s));
  report.Add(std::vector<double>{0.100, 0.101}, std::vector<BusyLink>{{}, {}}, 0.11);
  const auto blame = report.Take(Instant(60s));
  ASSERT_TRUE(blame);
  EXPECT_FALSE(blame->notable);
  EXPECT_THAT(blame->text, AllOf(HasSubstr("rank 1"), Not(HasSubstr("link"))));
}

TEST(BlameReport, ABusyLinkIsNotableWhenAllWaitForIt) {
  for (const double seconds : {0.105, 0.2}) {
    BlameReport report(60s);
    report.Restart(Instant(0s));
    report.Add(std::vector<double>{0.1, 0.1}, std::vector<BusyLink>{{}, {Rank(0), 0.9, 1e6}},
               seconds);
    const auto blame = report.Take(Instant(60s));
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->notable, seconds > 0.15);
    EXPECT_THAT(blame->text, HasSubstr("the link from rank 1 to rank 0"));
  }
}

TEST(BlameReport, NeverDueWhenSwitchedOff) {
  BlameReport report(0s);
  report.Restart(Instant(0s));
  EXPECT_FALSE(report.Due(Instant(1000s)));
}

}  // namespace
}  // namespace paceline::job

#include "job/straggler.h"

#include <gtest/gtest.h>

namespace paceline::job {
namespace {

TEST(StragglerReport, NamesWhoeverTheOthersWaitFor) {
  StragglerReport report;
  for (int i = 0; i < 3; ++i) report.Add(std::vector<double>{0.1, 0.2, 0.1});
  report.Add(std::vector<double>{0.1, 0.1, 0.11});
  EXPECT_EQ(report.Line(),
            "rank 1 was last in 75 % of 4 steps; the others waited 75.0 ms a step for it on "
            "average");
}

TEST(StragglerReport, AWorkerAloneWaitsForNobody) {
  StragglerReport report;
  report.Add(std::vector<double>{0.1});
  EXPECT_EQ(report.Line(), "");
}

}  // namespace
}  // namespace paceline::job

// `paceline perf ps` and `paceline perf table`, in sizes that show nothing but that they work.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PerfTable, GrowsToEachSizeAndComesBackFromItsSnapshots) {
  const TempDir dir;
  const CommandResult result =
      RunPaceline({"perf", "table", "--rows", "500,20003", "--dim", "3", "--optimizer", "adagrad",
                   "--ids", "10", "--pushes", "3", "--folder", dir.path().string(), "--json"});
  ASSERT_EQ(result.state.code, 0) << result.err;
  const nlohmann::json json = LastJson(result.out);
  ASSERT_EQ(json["points"].size(), 2U);
  std::vector<std::int64_t> rows;
  for (const auto& point : json["points"]) {
    rows.push_back(point["rows"]);
    EXPECT_EQ(point["value_bytes"], 12 * rows.back());    // 3 floats
    EXPECT_EQ(point["payload_bytes"], 32 * rows.back());  // the id, and 3 floats of the optimiser
    EXPECT_GE(point["table_bytes"], point["payload_bytes"]);
    EXPECT_GE(point["snapshot_bytes"], point["payload_bytes"]);
  }
  EXPECT_THAT(rows, ElementsAre(500, 20003));
}

TEST(PerfTable, RefusesPushesThatTheTableHasNoRowsFor) {
  ExpectError(RunPaceline({"perf", "table", "--rows", "100", "--ids", "101"}), 2, "--ids");
}

TEST(PerfPs, MeasuresEverythingBothWays) {
  const CommandResult result = RunPaceline(
      {"perf", "ps", "--servers", "2", "--workers", "2", "--dense", "64K", "--rows", "1000",
       "--ids", "100", "--pulls", "3", "--rounds", "2", "--peers", "none", "--json"});
  ASSERT_EQ(result.state.code, 0) << result.err;
  const nlohmann::json json = LastJson(result.out);
  EXPECT_THAT(json["skipped"], IsEmpty());
  std::set<std::pair<std::string, std::string>> measured;
  for (const auto& measure : json["results"]) {
    EXPECT_EQ(measure["seconds"].size(), 2U) << measure["what"];
    measured.emplace(measure["what"], measure["way"]);
  }
  for (const char* way : {"shared memory", "tcp"}) {
    for (const char* what : {"dense push", "dense pull", "dense push + pull", "sparse push",
                             "sparse pull", "small pull p50", "small pull p95"}) {
      EXPECT_TRUE(measured.contains({what, way})) << what << " " << way;
    }
  }
  for (const char* bound : {"memcpy", "tcp loopback", "sgd"}) {
    EXPECT_TRUE(measured.contains({"bound", bound})) << bound;
  }
}

TEST(PerfPs, RefusesPeersThatItDoesNotKnow) {
  ExpectError(RunPaceline({"perf", "ps", "--peers", "rsync"}), 2, "--peers");
}

}  // namespace
}  // namespace paceline::testing

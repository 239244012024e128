#include "job/server_record.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr char kWhole[] =
    R"({"endpoint":"127.0.0.1:4711","pid":12,"servers":2,"rows":3,"table_bytes":100,"dense_bytes":20,)"
    R"("tables":[{"name":"words","rows":3,"waiting":4,"evicted":5}],)"
    R"("waiting_bytes":3,"rss_bytes":500,"recovery_seconds":1.5,"log_bytes":4,"pushes":5,"duplicates":6,"version":7,"snapshots":8,)"
    R"("staleness":[9,10],"finished_below":11,"leases":[[12,13,0],[14,15,1]],"last":true})";

TEST(ServerRecordTest, ReadsEveryField) {
  const auto record = ParseServerRecord(kWhole);
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->endpoint, "127.0.0.1:4711");
  EXPECT_EQ(record->pid, 12);
  EXPECT_EQ(record->servers, 2U);
  EXPECT_EQ(record->rows, 3U);
  ASSERT_EQ(record->tables.size(), 1U);
  EXPECT_EQ(record->tables[0].name, "words");
  EXPECT_EQ(record->tables[0].rows, 3U);
  EXPECT_EQ(record->tables[0].waiting, 4U);
  EXPECT_EQ(record->tables[0].evicted, 5U);
  EXPECT_EQ(record->MemoryBytes(), 123U);
  EXPECT_EQ(record->rss_bytes, 500U);
  EXPECT_EQ(record->recovery_seconds, 1.5);
  EXPECT_EQ(record->log_bytes, 4U);
  EXPECT_EQ(record->pushes, 5U);
  EXPECT_EQ(record->duplicates, 6U);
  EXPECT_EQ(record->version, 7U);
  EXPECT_EQ(record->snapshots, 8U);
  EXPECT_THAT(record->staleness, ElementsAre(9, 10));
  EXPECT_EQ(record->finished_below, 11U);
  ASSERT_EQ(record->leases.size(), 2U);
  EXPECT_EQ(record->leases[0].batches, 13U);
  EXPECT_FALSE(record->leases[0].finished);
  EXPECT_EQ(record->leases[1].lease, 14U);
  EXPECT_TRUE(record->leases[1].finished);
  EXPECT_TRUE(record->last);
}

TEST(ServerRecordTest, WrongCountsAreNoneAndWithoutAPlaceItIsNoRecord) {
  const auto odd =
      ParseServerRecord(R"({"endpoint":"a:1","pid":1,"rows":-1,"staleness":[1,"x"],"pushes":"5",)"
                        R"("leases":[[1,2]],"tables":[{"rows":1}],"last":1})");
  ASSERT_THAT(odd, IsOk());
  EXPECT_EQ(odd->rows, 0U);
  EXPECT_EQ(odd->pushes, 0U);
  EXPECT_TRUE(odd->staleness.empty());
  EXPECT_TRUE(odd->leases.empty());
  EXPECT_TRUE(odd->tables.empty());
  EXPECT_FALSE(odd->last);
  EXPECT_THAT(ParseServerRecord(""), StatusIs(Code::kBadData, HasSubstr("not a JSON object")));
  EXPECT_THAT(ParseServerRecord("[1]"), StatusIs(Code::kBadData, HasSubstr("not a JSON object")));
  EXPECT_THAT(ParseServerRecord(R"({"pid":1})"), StatusIs(Code::kBadData, HasSubstr("endpoint")));
  EXPECT_THAT(ParseServerRecord(R"({"endpoint":"a:1"})"),
              StatusIs(Code::kBadData, HasSubstr("pid")));
  EXPECT_FALSE(ParseServerRecord(R"({"endpoint":"a","pid":1})").ok());
}

TEST(ServerRecordTest, FindsAllServersOfARun) {
  const testing::TempDir dir;
  const std::string run = dir.path().string();
  EXPECT_TRUE(ReadServerRecords(run).empty());
  std::filesystem::create_directories(dir / "servers");
  for (const char* name : {"server-10.json", "server-2.json"}) {
    testing::WriteFile(dir / ("servers/" + std::string(name)), kWhole);
  }
  testing::WriteFile(dir / "servers/server-3.json", "torn {");
  testing::WriteFile(dir / "servers/server-.json", kWhole);
  testing::WriteFile(dir / "servers/server-1.json.tmp", kWhole);
  const auto records = ReadServerRecords(run);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].index, 2U);
  EXPECT_EQ(records[1].index, 10U);
  EXPECT_TRUE(records[0].written_unix.has_value());
  EXPECT_THAT(ReadServerRecord(run, 1), StatusIs(Code::kNotFound, HasSubstr("server-1.json")));
  EXPECT_THAT(ReadServerRecord(run, 3), StatusIs(Code::kBadData, HasSubstr("server-3.json")));
}

}  // namespace
}  // namespace paceline::job

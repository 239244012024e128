#include "job/run_records.h"

#include <cmath>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Pair;
using testing::StatusIs;

template <typename Body>
Body Parse(const std::string& text) {
  const auto record = ParseRecord(text);
  EXPECT_THAT(record, IsOk());
  const Body* body = record.ok() ? std::get_if<Body>(&record->body) : nullptr;
  EXPECT_NE(body, nullptr) << text;
  return body == nullptr ? Body{} : *body;
}

TEST(RunRecords, StartCarriesThePlan) {
  const auto start = Parse<StartRecord>(
      R"({"type":"start","time":0.1,"run":"r","model":"m","step":3,"total_steps":9,"threads":2,)"
      R"("workers":4,"seed":1,"dataset_size":50,"batch":2,"shards":4,"total_samples":72,"new":[]})");
  EXPECT_EQ(start.step, 3U);
  EXPECT_EQ(start.workers, 4U);
  ASSERT_TRUE(start.plan);
  EXPECT_EQ(start.plan->Steps(), 9U);
}

TEST(RunRecords, StartOfAnOlderVersionHasNoPlan) {
  EXPECT_FALSE(Parse<StartRecord>(R"({"type":"start","model":"m","step":0,"total_steps":9})").plan);
}

TEST(RunRecords, ViewListsItsMembers) {
  const auto view = Parse<ViewRecord>(
      R"({"type":"view","generation":2,"step":5,"why":"w1 lost","members":[)"
      R"({"member":7,"rank":0,"host":"h","pid":3,"first_shard":0,"end_shard":4}]})");
  EXPECT_EQ(view.generation, 2U);
  EXPECT_THAT(view.members, ElementsAre(ViewMember{"7", 0, "h", 3, 0, 4}));
}

TEST(RunRecords, StepOfARunThatIsNotElasticHasNoGeneration) {
  const auto step = Parse<StepRecord>(
      R"({"type":"step","step":5,"samples":80,"loss":null,"busy_seconds":[0.5,1]})");
  EXPECT_FALSE(step.generation);
  EXPECT_TRUE(std::isnan(step.loss));
  EXPECT_THAT(step.busy_seconds, ElementsAre(0.5, 1.0));
  EXPECT_EQ(step.state, "");
}

TEST(RunRecords, UnknownTypesAreNotes) {
  const auto record = ParseRecord(R"({"type":"lost","unix":12.5,"member":"w1","why":"closed"})");
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->unix_seconds, 12.5);
  EXPECT_EQ(std::get<NoteRecord>(record->body).text, "closed");
  EXPECT_THAT(ParseRecord(R"({"type":"of the future"})"), IsOk());
}

TEST(RunRecords, WhatIsNotAnObjectWithATypeIsTorn) {
  for (const char* text : {"", "{", "7", "[]", "null", R"({"time":1})", R"({"type":7})",
                           R"({"type":"step","step":5)", R"({"type":"a"} x)", "\xff"}) {
    EXPECT_THAT(ParseRecord(text), StatusIs(Code::kProtocol, HasSubstr("type"))) << text;
  }
}

TEST(RunRecords, AKnownTypeNeedsItsFields) {
  for (const char* text :
       {R"({"type":"step","samples":1})", R"({"type":"step","step":-1,"samples":1})",
        R"({"type":"step","step":1.5,"samples":1})", R"({"type":"step","step":"1","samples":1})",
        R"({"type":"view","generation":1,"step":0})",
        R"({"type":"view","generation":1,"step":0,"members":[7]})",
        R"({"type":"view","generation":1,"step":0,"members":[{"member":"a","rank":0}]})",
        R"({"type":"start","model":"m","total_steps":9})", R"({"type":"end"})"}) {
    EXPECT_THAT(ParseRecord(text), StatusIs(Code::kBadData, HasSubstr("is missing or not")))
        << text;
  }
}

TEST(RunRecords, TensorsKeepTheOrderOfTheLine) {
  EXPECT_THAT(ParseTensorHashes(R"({"type":"step","tensors":{"z":"1","a":"2","n":3}})"),
              ElementsAre(Pair("z", "1"), Pair("a", "2")));
  EXPECT_THAT(ParseTensorHashes(R"({"type":"step"})"), IsEmpty());
  EXPECT_THAT(ParseTensorHashes("torn"), IsEmpty());
}

TEST(RunRecords, CoordinatorStatusKnowsMembersOutsideOfTheView) {
  const auto status = ParseCoordinatorStatus(
      R"({"unix":5.5,"generation":3,"state":"waiting","reason":"r","have":1,"min":2,"max":4,)"
      R"("members":[{"member":"a","rank":0,"rss_bytes":7},{"member":"b","rank":null}]})");
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(status->min, 2U);
  ASSERT_EQ(status->members.size(), 2U);
  EXPECT_EQ(status->members[0].rank, 0U);
  EXPECT_FALSE(status->members[1].rank);
  for (const char* text : {"", "{}", "[]", R"({"members":7})"}) {
    EXPECT_THAT(ParseCoordinatorStatus(text), StatusIs(Code::kBadData, HasSubstr("members")));
  }
}

TEST(RunRecords, PrintableTextCannotSteerATerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\x7f±"), "a [2Jb c ±");
}

}  // namespace
}  // namespace paceline::job

// Any bytes as a file of records, cut at any place: the records do not depend on how the bytes
// arrive, each is where it says it is, and whatever they hold, lineage, history and status are
// built from them. Also as a status file.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "job/coverage.h"
#include "job/lineage.h"
#include "job/member_history.h"
#include "job/record_file.h"
#include "job/run_status.h"
#include "job/status_view.h"

namespace {

using paceline::job::Record;

std::vector<Record> Read(std::string_view text, std::size_t cut) {
  std::vector<Record> records;
  paceline::job::RecordStream stream;
  const auto sink = [&](const Record& record) { records.push_back(record); };
  stream.Feed(text.substr(0, cut), sink);
  stream.Feed(text.substr(cut), sink);
  stream.Finish(sink);
  return records;
}

void CheckPlaces(std::string_view text, const std::vector<Record>& records) {
  for (const Record& record : records) {
    PACELINE_CHECK(record.offset + record.bytes <= text.size(), "inside of the file");
    const auto again = paceline::job::ParseRecord(text.substr(record.offset, record.bytes));
    PACELINE_CHECK(again.ok() && again->type == record.type, "found again where it was");
  }
}

void Build(const std::vector<Record>& records) {
  paceline::job::MemberHistoryBuilder history_builder;
  paceline::job::RunTracker tracker;
  for (const Record& record : records) {
    history_builder.Add(record);
    tracker.AddEvent(record);
    tracker.AddMember(record);
  }
  const paceline::job::MemberHistory history = history_builder.Finish();
  paceline::job::LineageBuilder builder(&history.views);
  for (const Record& record : records) builder.Add(record);
  const paceline::job::Lineage lineage = builder.Finish();
  std::uint64_t last = lineage.first_step;
  for (const auto& step : lineage.steps) {
    PACELINE_CHECK(step.step > last, "each step once, in order");
    last = step.step;
  }
  for (const auto& view : lineage.views) (void)paceline::job::WrongWithView(view.view, 16);
  (void)paceline::job::WhoDidWhat(lineage, history);
  (void)paceline::job::StatusText(tracker.Snapshot(1e9), 1e9, paceline::job::TextStyle::kColor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<Record> records = Read(text, 0);
  const std::vector<Record> cut = Read(text, size / 2);
  PACELINE_CHECK(records.size() == cut.size(), "the same records however the bytes arrive");
  CheckPlaces(text, records);
  Build(records);
  (void)paceline::job::ParseTensorHashes(text);
  (void)paceline::job::ParseCoordinatorStatus(text);
  return 0;
}

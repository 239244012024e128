#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/lease_history.h"
#include "job/lineage.h"
#include "job/run_records.h"

namespace paceline::job {

// One worker process from joining to its end, as the coordinator saw it.
struct MemberLife {
  std::string member;
  std::string host;
  std::uint64_t pid = 0;
  std::optional<double> joined_unix;
  std::string ended;  // "lost: connection closed", "left", "evicted: ..."; empty: not yet
  std::optional<double> ended_unix;
};

// What members.jsonl says. Immutable value.
struct MemberHistory {
  std::vector<MemberLife> lives;               // in the order of joining
  std::map<std::uint64_t, LineageView> views;  // by generation
  std::uint64_t coordinator_starts = 0;
  bool done = false;
  bool complete = false;  // all samples were lent and are done
  LeaseHistory leases;
  ViolationList violations;
};

// Builds the history from the records in the order of the file. Thread-compatible.
class MemberHistoryBuilder {
 public:
  void Add(const Record& record);
  MemberHistory Finish();

 private:
  void AddView(const Record& record, const ViewRecord& view);
  MemberLife& LifeOf(const std::string& member);
  void EndLife(const Record& record, const NoteRecord& note, const char* how);

  MemberHistory history_;
  LeaseHistoryBuilder leases_;
};

// A member's part of one view.
struct MemberPart {
  std::string member;
  std::string host;
  std::uint64_t pid = 0;
  std::uint64_t workers = 1;                // of a run without views: all of them
  std::optional<std::uint64_t> generation;  // absent in a run without views
  std::uint64_t rank = 0;
  std::uint64_t first_shard = 0;
  std::uint64_t end_shard = 0;
  std::uint64_t first_step = 0;  // that count; first > last: none
  std::uint64_t last_step = 0;
  std::optional<double> joined_unix;
  std::string ended;  // on the member's last part
};

// Who did what: by member in the order of joining, then by generation. Pure.
std::vector<MemberPart> WhoDidWhat(const Lineage& lineage, const MemberHistory& history);

}  // namespace paceline::job

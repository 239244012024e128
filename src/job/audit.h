#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "job/coverage.h"
#include "job/lineage.h"
#include "job/member_history.h"
#include "job/record_file.h"
#include "job/server_record.h"

namespace paceline::job {

// The records of one run, read and put in order. Immutable value.
struct LoadedRun {
  std::string path;
  Lineage lineage;
  MemberHistory history;
  RecordDamage events_damage;
  RecordDamage members_damage;
  bool has_members_file = false;
  std::vector<ServerRecord> servers;
};

// Reads RUN/events.jsonl and, if they are there, RUN/members.jsonl and the records of servers.
// kNotFound when there is no such directory or no events.jsonl in it.
Result<LoadedRun> LoadRun(const std::string& path);

// What the records prove, and what contradicts it.
struct AuditReport {
  std::string run;
  std::string model;
  algo::BatchPlan plan;          // of the last start
  std::uint64_t first_step = 0;  // steps done before the first record
  std::uint64_t steps = 0;       // that count
  std::uint64_t last_step = 0;
  std::uint64_t generations = 0;
  std::uint64_t starts = 0;
  std::uint64_t repeated_steps = 0;
  std::uint64_t witnessed_steps = 0;
  std::uint64_t late_records = 0;
  std::uint64_t hashed_steps = 0;  // with a state hash
  std::uint64_t coordinator_starts = 0;
  std::uint64_t torn_lines = 0;
  std::uint64_t malformed_lines = 0;
  CoverageResult coverage;
  LeaseHistory leases;
  std::uint64_t servers = 0;          // parameter servers whose records are here
  std::uint64_t pushes = 0;           // that the first of them has applied
  std::uint64_t repeated_pushes = 0;  // that came again and were not applied again, of all
  std::string ended;  // "complete", "stopped early", "interrupted", "no record of an end"
  std::vector<MemberPart> parts;
  std::vector<std::string> notes;
  ViolationList violations;

  bool ok() const { return violations.count() == 0; }
};

// Checks that no sample of any epoch was lost or repeated. kBadData when the records do not say
// enough to check anything. Pure.
Result<AuditReport> Audit(const LoadedRun& run);

std::string AuditText(const AuditReport& report);
std::string AuditJson(const AuditReport& report);

}  // namespace paceline::job

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "algo/batch_plan.h"
#include "job/lineage.h"
#include "job/run_records.h"

namespace paceline::job {

// What members.jsonl says of samples that were lent to workers which do not step together.
struct LeaseHistory {
  struct Entry {
    algo::PositionRange range;
    std::uint64_t done = 0;  // known to be applied
    std::string holder;      // empty: nobody now
    bool finished = false;
    std::uint64_t line = 0;  // of its newest record
  };
  std::map<std::uint64_t, Entry> leases;  // by number
  std::uint64_t handed_on = 0;            // leases that a second worker continued

  std::uint64_t samples_done() const;
  std::uint64_t end() const;         // of the last range
  std::uint64_t first_open() const;  // position: everything before is done
  std::uint64_t finished() const;
};

// Puts the records in order and notices what must not be: a lease in two hands, progress that was
// lost, positions that are in no lease or in two. Thread-compatible.
class LeaseHistoryBuilder {
 public:
  void Add(const Record& record, const LeaseRecord& lease, ViolationList& violations);
  LeaseHistory Finish(ViolationList& violations);

 private:
  LeaseHistory history_;
};

}  // namespace paceline::job

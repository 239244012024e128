#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algo/batch_plan.h"
#include "job/lease_history.h"
#include "job/lineage.h"
#include "job/server_record.h"

namespace paceline::job {

// What the trainers of a run were to push to its parameter servers, as its records say.
struct ExpectedPushes {
  algo::BatchPlan plan;
  std::uint64_t push_steps = 1;  // steps of one push
  std::uint64_t trainers = 1;    // not where samples are lent
  bool leased = false;
  bool complete = false;  // the run says that it is
};

// Compares what each server has applied with what was to be pushed, push by push: a server takes
// the pushes of a lease (of a fixed number of trainers: of a trainer) in their order and each once,
// so their number is the proof. A violation for each server that has more, of a complete run also
// for each that has less, or that has less of a lease than the coordinator was told. A lease of a
// complete run whose end only the servers know is witnessed by all of them: that is a note. Pure.
void CheckServers(const ExpectedPushes& expected, const LeaseHistory& leases,
                  const std::vector<ServerRecord>& servers, ViolationList* violations,
                  std::vector<std::string>* notes);

}  // namespace paceline::job

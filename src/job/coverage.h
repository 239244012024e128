#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algo/batch_plan.h"
#include "job/lineage.h"
#include "job/run_records.h"

namespace paceline::job {

// Shards [begin, end) and how many members of a view own each of them: one, if all is well.
struct ShardSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t owners = 0;
  friend bool operator==(const ShardSpan&, const ShardSpan&) = default;
};

// Cuts [0, shards) into spans of equal number of owners, ascending. Parts of a member's range
// outside of [0, shards) are ignored here. Pure.
std::vector<ShardSpan> OwnersOfShards(std::span<const ViewMember> members, std::uint64_t shards);

// What is wrong with a view: its shard ranges must tile [0, shards) exactly once, its ranks be
// 0 .. n-1, its members differ. Empty when nothing is. Pure.
std::string WrongWithView(const ViewRecord& view, std::uint64_t shards);

// Every epoch that the counted steps touch, sample by sample.
struct CoverageResult {
  std::uint64_t samples = 0;          // distinct (epoch, sample) pairs that were trained on
  std::uint64_t complete_epochs = 0;  // seen from the first to the last position
  std::uint64_t partial_samples = 0;  // of the last epoch, when it is not complete
};

// Recomputes with the run's own shuffle which samples every counted step held, through the shard
// ranges of the step's view, and marks them in a bitmap of one epoch at a time. Adds a violation
// for each epoch with lost samples and for each step that repeats some. `plan` must be valid; the
// lineage's starts may differ from it in total_samples only. kBadData when the data set is too
// large for a bitmap. Pure; needs dataset_size / 8 bytes and some 80 ns a sample.
Result<CoverageResult> CheckCoverage(const Lineage& lineage, const algo::BatchPlan& plan,
                                     ViolationList* violations);

}  // namespace paceline::job

#include "job/coverage.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "algo/sample_order.h"

namespace paceline::job {

namespace {

using algo::BatchPlan;
using algo::PositionRange;

constexpr std::uint64_t kMaxDataset = std::uint64_t{1} << 34;  // a bitmap of 2 GiB

// Marks positions in ascending order, one epoch after the other.
class EpochMarker {
 public:
  EpochMarker(const BatchPlan& plan, std::uint64_t first_position, ViolationList* violations)
      : plan_(plan), next_(first_position), first_(first_position), violations_(violations) {}

  // `owners` members trained on each of these positions in this step.
  void Mark(PositionRange range, std::uint64_t owners, const Violation& where) {
    std::uint64_t at = range.begin;
    const std::uint64_t end = range.begin + range.count;
    while (at < end) {
      EnterEpoch(plan_.EpochOf(at));
      const std::uint64_t stop = std::min(end, (epoch_ + 1) * plan_.dataset_size);
      if (owners > 0) MarkInEpoch(at, stop, owners, where);
      at = stop;
    }
    next_ = std::max(next_, end);
  }

  CoverageResult Finish() {
    CloseEpoch();
    return result_;
  }

 private:
  void EnterEpoch(std::uint64_t epoch) {
    if (order_ && epoch == epoch_) return;
    // Epochs without a single marked position are lost as a whole; a run cannot skip many, since
    // the step before and the step after the hole both have a record.
    if (order_) {
      next_ = std::max(next_, (epoch_ + 1) * plan_.dataset_size);
      CloseEpoch();
    }
    const std::uint64_t skipped = order_ && epoch > epoch_ + 1 ? epoch - epoch_ - 1 : 0;
    if (skipped > 0) {
      violations_->Add({.kind = "lost",
                        .text = fmt::format("{} whole epoch(s) from epoch {} on have no step",
                                            skipped, epoch_ + 1),
                        .file = "events.jsonl",
                        .line = 0,
                        .step = {},
                        .generation = {}});
    }
    epoch_ = epoch;
    order_.emplace(plan_.seed, epoch, plan_.dataset_size);
    seen_.assign((plan_.dataset_size + 63) / 64, 0);
  }

  void MarkInEpoch(std::uint64_t at, std::uint64_t stop, std::uint64_t owners,
                   const Violation& where) {
    std::uint64_t repeated = 0, first_repeated = 0;
    for (; at < stop; ++at) {
      const std::uint64_t sample = order_->At(at % plan_.dataset_size);
      const std::uint64_t bit = std::uint64_t{1} << (sample % 64);
      std::uint64_t& word = seen_[sample / 64];
      if ((word & bit) != 0 || owners > 1) {
        if (repeated++ == 0) first_repeated = sample;
      }
      word |= bit;
    }
    if (repeated == 0) return;
    Violation violation = where;
    violation.kind = "repeated";
    violation.text = fmt::format(
        "step {} trained on {} sample(s) of epoch {} more than once, first on sample {}",
        where.step.value_or(0), repeated, epoch_, first_repeated);
    violations_->Add(std::move(violation));
  }

  bool Seen(std::uint64_t sample) const { return (seen_[sample / 64] >> (sample % 64) & 1) != 0; }

  // Every position of the epoch between the run's first and the last one reached must be marked.
  void CloseEpoch() {
    if (!order_) return;
    const std::uint64_t epoch_begin = epoch_ * plan_.dataset_size;
    const std::uint64_t begin = std::max(first_, epoch_begin);
    const std::uint64_t end = std::min(next_, epoch_begin + plan_.dataset_size);
    std::uint64_t seen = 0;
    for (const std::uint64_t word : seen_) seen += static_cast<std::uint64_t>(std::popcount(word));
    result_.samples += seen;
    const std::uint64_t expected = end > begin ? end - begin : 0;
    const bool whole = expected == plan_.dataset_size;
    if (seen < expected) {
      ReportLost(begin, end, expected - seen);
    } else if (whole) {
      ++result_.complete_epochs;
    }
    result_.partial_samples = whole ? 0 : seen;
  }

  void ReportLost(std::uint64_t begin, std::uint64_t end, std::uint64_t lost) {
    std::uint64_t at = begin;
    while (at < end && Seen(order_->At(at % plan_.dataset_size))) ++at;
    const std::uint64_t step = at / plan_.GlobalBatch() + 1;
    violations_->Add(
        {.kind = "lost",
         .text = fmt::format("epoch {}: {} sample(s) were never trained on, first sample {}, which "
                             "belongs to step {}",
                             epoch_, lost, order_->At(at % plan_.dataset_size), step),
         .file = "events.jsonl",
         .line = 0,
         .step = step,
         .generation = {}});
  }

  const BatchPlan& plan_;
  std::uint64_t next_;   // beyond the last position reached
  std::uint64_t first_;  // of the run
  ViolationList* violations_;
  std::uint64_t epoch_ = 0;
  std::optional<algo::SampleOrder> order_;  // of epoch_
  std::vector<std::uint64_t> seen_;         // a bit for each sample of epoch_
  CoverageResult result_;
};

PositionRange SpanRange(const BatchPlan& plan, std::uint64_t step, const ShardSpan& span) {
  const PositionRange first = plan.ShardRange(Step(step), ShardId(span.begin));
  const PositionRange last = plan.ShardRange(Step(step), ShardId(span.end - 1));
  return {first.begin, last.begin + last.count - first.begin};
}

}  // namespace

std::vector<ShardSpan> OwnersOfShards(std::span<const ViewMember> members, std::uint64_t shards) {
  std::map<std::uint64_t, std::int64_t> changes{{0, 0}};
  for (const ViewMember& member : members) {
    const std::uint64_t end = std::min(member.end_shard, shards);
    if (member.first_shard >= end) continue;
    ++changes[member.first_shard];
    --changes[end];
  }
  std::vector<ShardSpan> spans;
  std::int64_t owners = 0;
  for (auto change = changes.begin(); change != changes.end(); ++change) {
    owners += change->second;
    const auto next = std::next(change);
    const std::uint64_t end = next == changes.end() ? shards : next->first;
    if (change->first >= end) continue;
    const auto count = static_cast<std::uint64_t>(owners);
    if (!spans.empty() && spans.back().owners == count) {
      spans.back().end = end;
    } else {
      spans.push_back({change->first, end, count});
    }
  }
  return spans;
}

std::string WrongWithView(const ViewRecord& view, std::uint64_t shards) {
  for (const ViewMember& member : view.members) {
    if (member.first_shard > member.end_shard || member.end_shard > shards) {
      return fmt::format("member {} owns shards [{}, {}) of {}", Printable(member.member),
                         member.first_shard, member.end_shard, shards);
    }
  }
  for (const ShardSpan& span : OwnersOfShards(view.members, shards)) {
    if (span.owners == 1) continue;
    return span.owners == 0
               ? fmt::format("nobody owns shards [{}, {})", span.begin, span.end)
               : fmt::format("{} members own shards [{}, {})", span.owners, span.begin, span.end);
  }
  std::vector<std::uint64_t> ranks;
  std::vector<std::string> names;
  for (const ViewMember& member : view.members) {
    ranks.push_back(member.rank);
    names.push_back(member.member);
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != i) return fmt::format("its ranks are not 0 to {}", ranks.size() - 1);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? "" : fmt::format("member {} is in it twice", Printable(*twice));
}

Result<CoverageResult> CheckCoverage(const Lineage& lineage, const BatchPlan& plan,
                                     ViolationList* violations) {
  if (plan.dataset_size > kMaxDataset) {
    return Status::Error(
        Code::kBadData,
        fmt::format("a data set of {} samples is too large to check, the limit is {}",
                    plan.dataset_size, kMaxDataset));
  }
  const std::vector<ShardSpan> everything{{0, plan.shards, 1}};
  std::vector<ShardSpan> spans;
  std::uint32_t spans_of = LineageStep::kNoView;
  BatchPlan step_plan = plan;
  const std::uint64_t first_step = std::min(lineage.first_step, plan.Steps());
  EpochMarker marker(plan, std::min(first_step * plan.GlobalBatch(), plan.total_samples),
                     violations);
  for (const LineageStep& step : lineage.steps) {
    const LineageView* view =
        step.view < lineage.views.size() ? &lineage.views[step.view] : nullptr;
    if (view != nullptr && step.view != std::exchange(spans_of, step.view)) {
      spans = OwnersOfShards(view->view.members, plan.shards);
    }
    // A view without members stands for one whose record is missing, which is reported already.
    const bool whole = view == nullptr || view->view.members.empty();
    if (step.start < lineage.starts.size() && lineage.starts[step.start].start.plan) {
      step_plan.total_samples = lineage.starts[step.start].start.plan->total_samples;
    }
    const Violation where{
        .kind = {},
        .text = {},
        .file = "events.jsonl",
        .line = step.line,
        .step = step.step,
        .generation = view != nullptr ? std::optional(view->view.generation) : std::nullopt};
    for (const ShardSpan& span : whole ? everything : spans) {
      marker.Mark(SpanRange(step_plan, step.step - 1, span), span.owners, where);
    }
  }
  return marker.Finish();
}

}  // namespace paceline::job

#include "job/lineage.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::job {

namespace {

std::string Steps(std::uint64_t first, std::uint64_t last) {
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
}

std::string OfGeneration(const std::optional<std::uint64_t>& generation) {
  return generation ? fmt::format(" of generation {}", *generation) : std::string();
}

}  // namespace

void ViolationList::Add(Violation violation) {
  ++count_;
  if (kept_.size() < kKept) kept_.push_back(std::move(violation));
}

void LineageBuilder::Violate(const char* kind, const Record& record, std::string text) {
  Violation violation{.kind = kind,
                      .text = std::move(text),
                      .file = "events.jsonl",
                      .line = record.line,
                      .step = {},
                      .generation = {}};
  if (const auto* step = std::get_if<StepRecord>(&record.body)) {
    violation.step = step->step;
    violation.generation = step->generation;
  } else if (const auto* view = std::get_if<ViewRecord>(&record.body)) {
    violation.step = view->step;
    violation.generation = view->generation;
  } else if (const auto* start = std::get_if<StartRecord>(&record.body)) {
    violation.step = start->step;
  } else if (const auto* end = std::get_if<EndRecord>(&record.body)) {
    violation.step = end->step;
  }
  lineage_.violations.Add(std::move(violation));
}

void LineageBuilder::Add(const Record& record) {
  if (const auto* start = std::get_if<StartRecord>(&record.body)) AddStart(record, *start);
  if (const auto* view = std::get_if<ViewRecord>(&record.body)) AddView(record, *view);
  if (const auto* step = std::get_if<StepRecord>(&record.body)) AddStep(record, *step);
  if (const auto* end = std::get_if<EndRecord>(&record.body)) AddEnd(record, *end);
}

Lineage LineageBuilder::Finish() { return std::move(lineage_); }

std::uint64_t LineageBuilder::Last() const { return std::max(lineage_.LastStep(), floor_); }

std::uint64_t LineageBuilder::ThreadsNow() const {
  return lineage_.starts.empty() ? 0 : lineage_.starts.back().start.threads;
}

// Everything above `base` is done again from here on.
void LineageBuilder::GoBackTo(std::uint64_t base) {
  if (!begun_) lineage_.first_step = base;
  begun_ = true;
  lineage_.first_step = std::min(lineage_.first_step, base);
  floor_ = std::min(floor_, base);
  while (!lineage_.steps.empty() && lineage_.steps.back().step > base) {
    LineageStep& step = lineage_.steps.back();
    if (step.witnessed) {
      --lineage_.witnessed_steps;
    } else {
      ++lineage_.repeated_steps;
    }
    if (!step.state.empty()) {
      const std::uint64_t threads =
          step.start < lineage_.starts.size() ? lineage_.starts[step.start].start.threads : 0;
      superseded_[step.step] = {std::move(step.state), step.line, threads};
    }
    lineage_.steps.pop_back();
  }
}

// Steps up to `base` are said to be committed; accounts for those without a record.
void LineageBuilder::CloseGap(const Record& record, std::uint64_t base, const char* what,
                              std::uint64_t witnessable) {
  const std::uint64_t last = Last();
  if (base <= last) return;
  if (base > last + witnessable) {
    Violate("gap", record,
            fmt::format("{} goes on at step {}, but there is no record of {}", what, base,
                        Steps(last + 1, base)));
    floor_ = base;
    return;
  }
  for (std::uint64_t step = last + 1; step <= base; ++step) AddWitnessed(record, step);
}

void LineageBuilder::AddWitnessed(const Record& record, std::uint64_t number) {
  LineageStep step;
  step.step = number;
  step.view = lineage_.views.empty() ? LineageStep::kNoView
                                     : static_cast<std::uint32_t>(lineage_.views.size() - 1);
  step.start = lineage_.starts.empty() ? 0 : static_cast<std::uint32_t>(lineage_.starts.size() - 1);
  step.witnessed = true;
  step.line = record.line;
  ++lineage_.witnessed_steps;
  lineage_.steps.push_back(std::move(step));
}

void LineageBuilder::AddStart(const Record& record, const StartRecord& start) {
  if (!start.leased) {
    GoBackTo(start.step);
    const std::uint64_t views = lineage_.views.empty() ? 0 : 1;
    CloseGap(record, start.step, "a process", std::max(views, start.push_steps));
  }
  lineage_.starts.push_back({start, record.line, record.unix_seconds});
  lineage_.end.reset();
  view_since_start_ = false;
}

void LineageBuilder::AddView(const Record& record, const ViewRecord& view) {
  if (!lineage_.views.empty() && view.generation <= lineage_.views.back().view.generation) {
    Violate("generation", record,
            fmt::format("the view of generation {} follows that of generation {}", view.generation,
                        lineage_.views.back().view.generation));
    return;  // whoever wrote it had been replaced: it decides nothing
  }
  GoBackTo(view.step);
  CloseGap(record, view.step, "a view", lineage_.views.empty() ? 0 : 1);
  OpenView({view, record.line, record.unix_seconds});
}

void LineageBuilder::OpenView(LineageView view) {
  lineage_.views.push_back(std::move(view));
  lineage_.end.reset();
  view_since_start_ = true;
}

std::uint32_t LineageBuilder::FindView(std::uint64_t generation) const {
  const auto& views = lineage_.views;
  const auto found = std::lower_bound(
      views.begin(), views.end(), generation,
      [](const LineageView& view, std::uint64_t wanted) { return view.view.generation < wanted; });
  if (found == views.end() || found->view.generation != generation) return LineageStep::kNoView;
  return static_cast<std::uint32_t>(found - views.begin());
}

std::uint64_t LineageBuilder::LowestBaseAfter(std::uint64_t generation) const {
  std::uint64_t lowest = UINT64_MAX;
  for (auto view = lineage_.views.rbegin(); view != lineage_.views.rend(); ++view) {
    if (view->view.generation <= generation) break;
    lowest = std::min(lowest, view->view.step);
  }
  return lowest;
}

const LineageView* LineageBuilder::KnownView(std::uint64_t generation) const {
  if (known_views_ == nullptr) return nullptr;
  const auto found = known_views_->find(generation);
  return found == known_views_->end() ? nullptr : &found->second;
}

// Whether the step belongs to the newest view, or to none in a run without; complains otherwise.
bool LineageBuilder::ViewOf(const Record& record, const StepRecord& step) {
  if (!step.generation) {
    if (!view_since_start_) return true;
    Violate("generation", record,
            fmt::format("step {} names no generation, but the run has views", step.step));
    return true;
  }
  const std::uint64_t newest = lineage_.views.empty() ? 0 : lineage_.views.back().view.generation;
  if (!lineage_.views.empty() && *step.generation == newest) return true;
  if (!lineage_.views.empty() && *step.generation < newest) return false;
  if (const LineageView* known = KnownView(*step.generation)) {
    lineage_.notes.push_back(fmt::format(
        "the view of generation {} is only in members.jsonl (line {}), not in events.jsonl",
        *step.generation, known->line));
    GoBackTo(known->view.step);
    CloseGap(record, known->view.step, "a view", lineage_.views.empty() ? 0 : 1);
    OpenView(*known);
    return true;
  }
  Violate("generation", record,
          fmt::format("step {} is of generation {}, of which there is no view", step.step,
                      *step.generation));
  // A view of its own, so that each such generation is reported once.
  OpenView({.view = {.generation = *step.generation,
                     .step = step.step == 0 ? 0 : step.step - 1,
                     .members = {},
                     .why = "no record"},
            .line = record.line,
            .unix_seconds = {}});
  return true;
}

LineageStep LineageBuilder::Entry(const Record& record, const StepRecord& step) const {
  LineageStep entry;
  entry.step = step.step;
  entry.samples = step.samples;
  entry.view = step.generation ? FindView(*step.generation) : LineageStep::kNoView;
  entry.start =
      lineage_.starts.empty() ? 0 : static_cast<std::uint32_t>(lineage_.starts.size() - 1);
  entry.state = step.state;
  entry.line = record.line;
  entry.offset = record.offset;
  entry.bytes = record.bytes;
  return entry;
}

LineageStep* LineageBuilder::Find(std::uint64_t step) {
  auto& steps = lineage_.steps;
  const auto found =
      std::lower_bound(steps.begin(), steps.end(), step,
                       [](const LineageStep& entry, std::uint64_t s) { return entry.step < s; });
  return found == steps.end() || found->step != step ? nullptr : &*found;
}

void LineageBuilder::AddStep(const Record& record, const StepRecord& step) {
  ++lineage_.step_records;
  if (Leased()) return;
  if (!begun_) {
    Violate("gap", record, fmt::format("step {} comes before any start", step.step));
    GoBackTo(step.step == 0 ? 0 : step.step - 1);
  }
  if (!ViewOf(record, step)) {
    AddLate(record, step);
    return;
  }
  if (lineage_.end) {
    Violate("end", record,
            fmt::format("step {} comes after the run's end in line {}, without a new start",
                        step.step, lineage_.end_line));
    lineage_.end.reset();
  }
  const std::uint64_t last = Last();
  if (step.step <= last) {
    if (const LineageStep* first = Find(step.step)) {
      AddDuplicate(record, step, *first);
    } else {
      Violate("duplicate", record,
              fmt::format("step {}{} is recorded, but the run was at step {} already", step.step,
                          OfGeneration(step.generation), last));
    }
    return;
  }
  const std::uint64_t first = step.step - std::min(step.step, step.steps) + 1;  // of the record
  if (first > last + 1) {
    Violate("gap", record,
            fmt::format("there is no record of {}{}: step {} follows step {}",
                        Steps(last + 1, first - 1), OfGeneration(step.generation), first, last));
  }
  LineageStep entry = Entry(record, step);
  for (std::uint64_t inside = std::max(first, last + 1); inside < step.step; ++inside) {
    lineage_.steps.push_back(entry);
    lineage_.steps.back().step = inside;
    lineage_.steps.back().inside = true;
  }
  CompareWithSuperseded(entry);
  lineage_.steps.push_back(std::move(entry));
}

// A record of a generation that was over when it was written.
void LineageBuilder::AddLate(const Record& record, const StepRecord& step) {
  ++lineage_.late_records;
  LineageStep entry = Entry(record, step);
  if (entry.view == LineageStep::kNoView) {
    Violate("generation", record,
            fmt::format("step {} is of generation {}, of which there is no view", step.step,
                        *step.generation));
  }
  LineageStep* counted = Find(step.step);
  if (step.step > LowestBaseAfter(*step.generation)) {
    ++lineage_.repeated_steps;
    if (step.state.empty()) return;
    superseded_[step.step] = {step.state, record.line, ThreadsNow()};
    if (counted != nullptr) CompareWithSuperseded(*counted);
    return;
  }
  if (counted == nullptr) {
    Violate("gap", record,
            fmt::format("step {}{} stands outside of the run's order", step.step,
                        OfGeneration(step.generation)));
  } else if (counted->witnessed) {  // the record that was missing
    --lineage_.witnessed_steps;
    *counted = std::move(entry);
  } else {
    AddDuplicate(record, step, *counted);
  }
}

void LineageBuilder::AddDuplicate(const Record& record, const StepRecord& step,
                                  const LineageStep& first) {
  Violate("duplicate", record,
          fmt::format("step {}{} is recorded a second time; first in line {}", step.step,
                      OfGeneration(step.generation), first.line));
  if (step.state.empty() || first.state.empty() || step.state == first.state) return;
  Violate("state", record,
          fmt::format("step {} has two states: {} in line {} and {} in line {}", step.step,
                      first.state, first.line, step.state, record.line));
}

// Doing a step again gives the same bits, unless the number of threads has changed.
void LineageBuilder::CompareWithSuperseded(const LineageStep& step) {
  const auto found = superseded_.find(step.step);
  if (found == superseded_.end()) return;
  const Superseded before = std::move(found->second);
  superseded_.erase(found);
  if (step.state.empty() || before.state == step.state) return;
  const std::string text =
      fmt::format("step {} was done twice with different results: {} in line {} and {} in line {}",
                  step.step, before.state, before.line, step.state, step.line);
  // With servers others may have pushed in between.
  if (!lineage_.starts.empty() && lineage_.starts.back().start.push_steps > 0) {
    lineage_.notes.push_back(text);
    return;
  }
  if (before.threads != ThreadsNow()) {
    lineage_.notes.push_back(text + " (the number of threads had changed)");
    return;
  }
  lineage_.violations.Add(
      {.kind = "state",
       .text = text,
       .file = "events.jsonl",
       .line = step.line,
       .step = step.step,
       .generation = step.view < lineage_.views.size()
                         ? std::optional(lineage_.views[step.view].view.generation)
                         : std::nullopt});
}

void LineageBuilder::AddEnd(const Record& record, const EndRecord& end) {
  if (!Leased() && end.step != Last()) {
    Violate(
        "end", record,
        fmt::format("the run says that it ended at step {}, but the last step that counts is {}",
                    end.step, Last()));
  }
  lineage_.end = end;
  lineage_.end_line = record.line;
}

}  // namespace paceline::job

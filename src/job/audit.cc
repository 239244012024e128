#include "job/audit.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "job/run_dir.h"
#include "job/server_coverage.h"

namespace paceline::job {

namespace {

using algo::BatchPlan;

constexpr char kEvents[] = "events.jsonl";
constexpr char kMembers[] = "members.jsonl";

// Samples of the first `steps` steps.
std::uint64_t SamplesOf(const BatchPlan& plan, std::uint64_t steps) {
  return steps >= plan.Steps() ? plan.total_samples : steps * plan.GlobalBatch();
}

std::optional<std::uint64_t> GenerationOf(const Lineage& lineage, const LineageStep& step) {
  if (step.view >= lineage.views.size()) return std::nullopt;
  return lineage.views[step.view].view.generation;
}

Result<BatchPlan> FirstPlan(const LoadedRun& run) {
  const Lineage& lineage = run.lineage;
  if (lineage.starts.empty()) {
    return Status::Error(Code::kBadData,
                         fmt::format("{}/{} has no start record", run.path, kEvents));
  }
  const LineageStart& first = lineage.starts.front();
  if (!first.start.plan) {
    return Status::Error(
        Code::kBadData,
        fmt::format("{}/{}, line {}: the start record names no seed, dataset_size, batch, shards "
                    "and total_samples; an older version wrote it",
                    run.path, kEvents, first.line));
  }
  const Status valid = first.start.plan->Validate();
  if (!valid.ok()) {
    return Status::Error(Code::kBadData, fmt::format("{}/{}, line {}: {}", run.path, kEvents,
                                                     first.line, valid.message()));
  }
  return *first.start.plan;
}

// Every process must have worked on the same plan; only the end may move. Gives each start a plan
// that is safe to compute with.
void CheckPlans(const BatchPlan& plan, Lineage* lineage, ViolationList* violations) {
  BatchPlan current = plan;
  for (LineageStart& each : lineage->starts) {
    const BatchPlan said = each.start.plan.value_or(current);
    BatchPlan allowed = plan;
    allowed.total_samples = said.total_samples;
    const bool same = said.seed == plan.seed && said.dataset_size == plan.dataset_size &&
                      said.batch == plan.batch && said.shards == plan.shards;
    const std::string& model = lineage->starts.front().start.model;
    if (!same || !allowed.Validate().ok() || each.start.model != model) {
      violations->Add({.kind = "plan",
                       .text = fmt::format("a process resumed at step {} with another model, seed, "
                                           "data set, batch or number of shards",
                                           each.start.step),
                       .file = kEvents,
                       .line = each.line,
                       .step = each.start.step,
                       .generation = {}});
    }
    if (allowed.Validate().ok()) current = allowed;
    each.start.plan = current;
  }
}

void CheckSamples(const Lineage& lineage, const BatchPlan& first_plan, ViolationList* violations) {
  const auto plan_of = [&](const LineageStep& step) {
    return step.start < lineage.starts.size() ? *lineage.starts[step.start].start.plan : first_plan;
  };
  std::uint64_t last_step = lineage.first_step;
  std::uint64_t samples = SamplesOf(first_plan, last_step);
  for (const LineageStep& step : lineage.steps) {
    const BatchPlan plan = plan_of(step);
    const auto violate = [&](const char* kind, std::string text) {
      violations->Add({.kind = kind,
                       .text = std::move(text),
                       .file = kEvents,
                       .line = step.line,
                       .step = step.step,
                       .generation = GenerationOf(lineage, step)});
    };
    if (step.step > plan.Steps()) {
      violate("plan", fmt::format("step {} is beyond the end of the plan, {} steps", step.step,
                                  plan.Steps()));
    }
    const std::uint64_t expected =
        samples + plan.StepSamples(Step(step.step - 1)) +
        (SamplesOf(plan, step.step - 1) - SamplesOf(plan, std::min(last_step, step.step - 1)));
    const bool counted = !step.witnessed && !step.inside;
    if (counted && step.samples != expected) {
      violate("samples", fmt::format("step {} says {} samples in all, the plan makes it {}",
                                     step.step, step.samples, expected));
    }
    samples = counted ? step.samples : expected;
    last_step = step.step;
  }
}

void CheckView(const LineageView& view, std::uint64_t shards, ViolationList* violations) {
  const std::string wrong = WrongWithView(view.view, shards);
  if (wrong.empty()) return;
  violations->Add(
      {.kind = "view",
       .text = fmt::format("the view of generation {} is wrong: {}", view.view.generation, wrong),
       .file = view.from_members ? kMembers : kEvents,
       .line = view.line,
       .step = view.view.step,
       .generation = view.view.generation});
}

bool SameOwners(const ViewRecord& a, const ViewRecord& b) {
  const auto key = [](const ViewMember& member) {
    return std::tuple(member.rank, member.member, member.first_shard, member.end_shard);
  };
  const auto sorted = [&](const ViewRecord& view) {
    std::vector<ViewMember> members = view.members;
    std::sort(members.begin(), members.end(),
              [&](const ViewMember& x, const ViewMember& y) { return key(x) < key(y); });
    return members;
  };
  return std::ranges::equal(sorted(a), sorted(b), {}, key, key);
}

// The leader's views against the coordinator's.
void CheckViews(const LoadedRun& run, std::uint64_t shards, ViolationList* violations) {
  const auto& decided = run.history.views;
  for (const LineageView& view : run.lineage.views) {
    if (view.view.members.empty() && view.view.why == "no record") continue;  // reported already
    CheckView(view, shards, violations);
    const auto same = decided.find(view.view.generation);
    if (same == decided.end() || SameOwners(view.view, same->second.view)) continue;
    violations->Add({.kind = "view",
                     .text = fmt::format("the view of generation {} gives out other shards than "
                                         "the coordinator decided (members.jsonl, line {})",
                                         view.view.generation, same->second.line),
                     .file = kEvents,
                     .line = view.line,
                     .step = view.view.step,
                     .generation = view.view.generation});
  }
  for (const auto& [generation, view] : decided) {
    const bool began = std::ranges::any_of(
        run.lineage.views,
        [&, g = generation](const auto& each) { return each.view.generation == g; });
    if (!began) CheckView(view, shards, violations);
  }
}

void CheckEnd(const Lineage& lineage, const BatchPlan& plan, AuditReport* report) {
  report->ended = !lineage.end                 ? "no record of an end"
                  : lineage.end->interrupted   ? "interrupted"
                  : lineage.end->stopped_early ? "stopped early"
                                               : "complete";
  if (!lineage.end || lineage.end->interrupted || lineage.end->stopped_early) return;
  if (lineage.end->step >= plan.Steps()) return;
  report->violations.Add({.kind = "end",
                          .text = fmt::format("the run ended at step {} as complete, but its plan "
                                              "has {} steps",
                                              lineage.end->step, plan.Steps()),
                          .file = kEvents,
                          .line = lineage.end_line,
                          .step = lineage.end->step,
                          .generation = {}});
}

void NoteDamage(const char* file, const RecordDamage& damage, AuditReport* report) {
  report->torn_lines += damage.torn;
  report->malformed_lines += damage.malformed;
  if (damage.torn > 0) {
    report->notes.push_back(fmt::format("{}: {} torn line(s), the first is line {}", file,
                                        damage.torn, damage.first_torn_line));
  }
  if (damage.malformed > 0) {
    report->notes.push_back(
        fmt::format("{}: {} line(s) without the fields they need, first line "
                    "{}: {}",
                    file, damage.malformed, damage.first_malformed_line,
                    Printable(damage.first_malformed_text)));
  }
}

// Where samples are lent, the ranges say what was done: a position is a sample of an epoch.
void CheckLeases(const LoadedRun& run, AuditReport* report) {
  const BatchPlan& plan = report->plan;
  const LeaseHistory& leases = report->leases;
  CoverageResult& coverage = report->coverage;
  coverage.samples = leases.samples_done();
  coverage.complete_epochs = leases.first_open() / plan.dataset_size;
  coverage.partial_samples = coverage.samples - coverage.complete_epochs * plan.dataset_size;
  report->steps = report->last_step = coverage.samples / plan.GlobalBatch();
  report->generations = run.history.views.size();
  const bool complete = report->ended == "complete" || run.history.complete;
  if (!complete || leases.end() == plan.total_samples) return;
  report->violations.Add({.kind = "lost",
                          .text = fmt::format("the run is complete, but samples were lent up to {} "
                                              "of {}",
                                              leases.end(), plan.total_samples),
                          .file = kMembers,
                          .step = {},
                          .generation = {}});
}

// Of those of the newest number of servers.
void CheckServersOf(const LoadedRun& run, AuditReport* report) {
  const StartRecord& start = run.lineage.starts.back().start;
  if (start.push_steps == 0) return;
  std::vector<ServerRecord> servers = run.servers;
  if (!servers.empty()) {
    const std::uint64_t count = servers.front().servers;
    std::erase_if(servers, [&](const ServerRecord& server) { return server.index >= count; });
    if (servers.size() < count) {
      report->notes.push_back(
          fmt::format("records of {} of {} servers are not here: nothing is "
                      "proven about those",
                      count - servers.size(), count));
    }
  }
  report->servers = servers.size();
  for (const ServerRecord& server : servers) report->repeated_pushes += server.duplicates;
  if (!servers.empty()) report->pushes = servers.front().pushes;
  CheckServers({.plan = report->plan,
                .push_steps = start.push_steps,
                .trainers = start.workers,
                .leased = start.leased,
                .complete = report->ended == "complete"},
               report->leases, servers, &report->violations, &report->notes);
}

AuditReport Summarize(const LoadedRun& run) {
  const Lineage& lineage = run.lineage;
  AuditReport report{.run = run.path,
                     .model = lineage.starts.front().start.model,
                     .plan = {},
                     .first_step = lineage.first_step,
                     .steps = lineage.steps.size(),
                     .last_step = lineage.LastStep(),
                     .generations = lineage.views.size(),
                     .starts = lineage.starts.size(),
                     .repeated_steps = lineage.repeated_steps,
                     .witnessed_steps = lineage.witnessed_steps,
                     .late_records = lineage.late_records,
                     .coordinator_starts = run.history.coordinator_starts,
                     .coverage = {},
                     .leases = run.history.leases,
                     .ended = {},
                     .parts = WhoDidWhat(lineage, run.history),
                     .notes = lineage.notes,
                     .violations = lineage.violations};
  for (const LineageStep& step : lineage.steps) report.hashed_steps += step.state.empty() ? 0 : 1;
  for (const Violation& each : run.history.violations.kept()) report.violations.Add(each);
  NoteDamage(kEvents, run.events_damage, &report);
  NoteDamage(kMembers, run.members_damage, &report);
  return report;
}

}  // namespace

Result<LoadedRun> LoadRun(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return Status::Error(Code::kNotFound, fmt::format("there is no run directory {}", path));
  }
  LoadedRun run;
  run.path = path;
  const RunDirectory directory(path);
  RecordFile members(directory.MembersFile());
  MemberHistoryBuilder history;
  const Status read = members.ReadAll([&](const Record& record) { history.Add(record); });
  if (!read.ok() && read.code() != Code::kNotFound) return read;
  run.has_members_file = read.ok();
  run.history = history.Finish();
  run.members_damage = members.damage();
  RecordFile events(directory.EventFile());
  LineageBuilder lineage(&run.history.views);
  PACELINE_TRY(events.ReadAll([&](const Record& record) { lineage.Add(record); })
                   .Wrap(path + " holds no records of a run"));
  run.lineage = lineage.Finish();
  run.events_damage = events.damage();
  run.servers = ReadServerRecords(path);
  return run;
}

Result<AuditReport> Audit(const LoadedRun& loaded) {
  PACELINE_ASSIGN(const BatchPlan plan, FirstPlan(loaded));
  AuditReport report = Summarize(loaded);
  LoadedRun run = loaded;
  CheckPlans(plan, &run.lineage, &report.violations);
  report.plan = *run.lineage.starts.back().start.plan;
  CheckViews(run, plan.shards, &report.violations);
  CheckEnd(run.lineage, report.plan, &report);
  if (run.lineage.starts.back().start.leased) {
    CheckLeases(run, &report);
  } else {
    CheckSamples(run.lineage, plan, &report.violations);
    PACELINE_ASSIGN(report.coverage, CheckCoverage(run.lineage, plan, &report.violations));
  }
  CheckServersOf(run, &report);
  return report;
}

}  // namespace paceline::job

#include "job/run_compare.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "job/run_dir.h"

namespace paceline::job {

namespace {

constexpr std::size_t kShownTensors = 10;

const char* Word(Likeness likeness) {
  switch (likeness) {
    case Likeness::kEqual: return "equal";
    case Likeness::kPrefix: return "prefix";
    case Likeness::kDifferent: return "different";
    case Likeness::kNotComparable: return "not comparable";
  }
  return "unknown";
}

// "seed 1 / 2, shards 4 / 8"; empty when both runs go through the same samples in the same order.
std::string PlanDifference(const StartRecord& a, const StartRecord& b) {
  std::string text;
  const auto compare = [&](const char* name, const auto& x, const auto& y) {
    if (x != y) text += fmt::format("{}{} {} / {}", text.empty() ? "" : ", ", name, x, y);
  };
  compare("model", Printable(a.model), Printable(b.model));
  if (!a.plan || !b.plan) return text;
  compare("seed", a.plan->seed, b.plan->seed);
  compare("data set of", a.plan->dataset_size, b.plan->dataset_size);
  compare("batch", a.plan->batch, b.plan->batch);
  compare("shards", a.plan->shards, b.plan->shards);
  return text;
}

bool HasHashes(const Lineage& lineage) {
  return std::ranges::any_of(lineage.steps,
                             [](const LineageStep& step) { return !step.state.empty(); });
}

std::string WhyNotComparable(const LoadedRun& first, const LoadedRun& second) {
  for (const LoadedRun* run : {&first, &second}) {
    if (run->lineage.starts.empty()) return run->path + " has no start record";
  }
  const std::string plans =
      PlanDifference(first.lineage.starts.front().start, second.lineage.starts.front().start);
  if (!plans.empty()) return "the runs have different plans: " + plans;
  for (const LoadedRun* run : {&first, &second}) {
    if (HasHashes(run->lineage)) continue;
    return fmt::format("{} has no hashes of its state; was it made with --reproducible?",
                       run->path);
  }
  return "";
}

void CompareTensors(const TensorHashes& first, const TensorHashes& second,
                    RunComparison* comparison) {
  std::map<std::string, std::string> others(second.begin(), second.end());
  for (const auto& [name, hash] : first) {
    const auto other = others.find(name);
    if (other != others.end() && other->second == hash) {
      ++comparison->equal_tensors;
    } else {
      comparison->tensors.push_back(name);
    }
    if (other != others.end()) others.erase(other);
  }
  for (const auto& [name, hash] : others) comparison->tensors.push_back(name);
}

// Walks the steps that both have; stops at the first that differs.
Status CompareSteps(const LoadedRun& first, const LoadedRun& second, const TensorReader& read,
                    RunComparison* comparison) {
  auto a = first.lineage.steps.begin();
  auto b = second.lineage.steps.begin();
  while (a != first.lineage.steps.end() && b != second.lineage.steps.end()) {
    if (a->step != b->step) {
      a->step < b->step ? ++a : ++b;
      continue;
    }
    const bool hashed = !a->state.empty() && !b->state.empty();
    comparison->compared_steps += hashed ? 1 : 0;
    if (hashed) comparison->last_compared_step = a->step;
    if (hashed && a->state != b->state) break;
    ++a;
    ++b;
  }
  if (a == first.lineage.steps.end() || b == second.lineage.steps.end()) return {};
  comparison->likeness = Likeness::kDifferent;
  comparison->step = a->step;
  comparison->first_state = a->state;
  comparison->second_state = b->state;
  comparison->first_line = a->line;
  comparison->second_line = b->line;
  PACELINE_ASSIGN(const TensorHashes first_tensors, read(first, *a));
  PACELINE_ASSIGN(const TensorHashes second_tensors, read(second, *b));
  CompareTensors(first_tensors, second_tensors, comparison);
  return {};
}

}  // namespace

Result<TensorHashes> ReadTensors(const LoadedRun& run, const LineageStep& step) {
  PACELINE_ASSIGN(const std::string text,
                  ReadPiece(RunDirectory(run.path).EventFile(), step.offset, step.bytes));
  return ParseTensorHashes(text);
}

Result<RunComparison> CompareRuns(const LoadedRun& first, const LoadedRun& second,
                                  const TensorReader& read) {
  RunComparison comparison;
  comparison.first_run = first.path;
  comparison.second_run = second.path;
  comparison.first_last_step = first.lineage.LastStep();
  comparison.second_last_step = second.lineage.LastStep();
  comparison.reason = WhyNotComparable(first, second);
  if (!comparison.reason.empty()) return comparison;
  PACELINE_TRY(CompareSteps(first, second, read, &comparison));
  if (comparison.likeness == Likeness::kDifferent) return comparison;
  if (comparison.compared_steps == 0) {
    comparison.reason = "no step has a hash in both runs";
    return comparison;
  }
  const auto [shorter, longer] =
      std::minmax(comparison.first_last_step, comparison.second_last_step);
  if (shorter == longer && comparison.last_compared_step == longer) {
    comparison.likeness = Likeness::kEqual;
    return comparison;
  }
  comparison.likeness = Likeness::kPrefix;
  const bool first_shorter = comparison.first_last_step < comparison.second_last_step;
  comparison.reason =
      shorter == longer ? fmt::format("the last steps, from {} on, have no hash in one of the runs",
                                      comparison.last_compared_step + 1)
                        : fmt::format("{} is a prefix of {}: {} of {} steps",
                                      first_shorter ? first.path : second.path,
                                      first_shorter ? second.path : first.path, shorter, longer);
  return comparison;
}

std::string ComparisonText(const RunComparison& comparison) {
  std::string text =
      fmt::format("{:<12} {} ({} steps)\n{:<12} {} ({} steps)\n{:<12} {} steps\n", "first",
                  comparison.first_run, comparison.first_last_step, "second", comparison.second_run,
                  comparison.second_last_step, "compared", comparison.compared_steps);
  if (comparison.step) {
    text += fmt::format("{:<12} step {}: {} (line {}) / {} (line {})\n", "differs",
                        *comparison.step, Printable(comparison.first_state), comparison.first_line,
                        Printable(comparison.second_state), comparison.second_line);
    std::string names;
    for (std::size_t i = 0; i < std::min(comparison.tensors.size(), kShownTensors); ++i) {
      names += (i == 0 ? "" : ", ") + Printable(comparison.tensors[i]);
    }
    if (comparison.tensors.size() > kShownTensors) names += ", ...";
    const std::size_t all = comparison.tensors.size() + comparison.equal_tensors;
    text += fmt::format(
        "{:<12} {}\n", "tensors",
        all == 0 ? std::string("not recorded")
                 : fmt::format("{} of {} differ: {}", comparison.tensors.size(), all, names));
  }
  switch (comparison.likeness) {
    case Likeness::kEqual: return text + "audit: the runs are equal, bit for bit\n";
    case Likeness::kPrefix: return text + "audit: equal so far: " + comparison.reason + "\n";
    case Likeness::kDifferent:
      return text + fmt::format("audit: the runs differ from step {} on\n", *comparison.step);
    case Likeness::kNotComparable: break;
  }
  return text + "audit: not comparable: " + comparison.reason + "\n";
}

std::string ComparisonJson(const RunComparison& comparison) {
  JsonObject json;
  json.Add("first", comparison.first_run)
      .Add("second", comparison.second_run)
      .Add("verdict", Word(comparison.likeness))
      .Add("reason", comparison.reason)
      .Add("compared_steps", comparison.compared_steps)
      .Add("first_last_step", comparison.first_last_step)
      .Add("second_last_step", comparison.second_last_step);
  if (comparison.step) {
    json.Add("step", *comparison.step)
        .Add("first_state", comparison.first_state)
        .Add("second_state", comparison.second_state)
        .Add("different_tensors", comparison.tensors)
        .Add("equal_tensors", comparison.equal_tensors);
  }
  return json.Text();
}

}  // namespace paceline::job

#include "job/run_status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "job/run_dir.h"

namespace paceline::job {

namespace {

constexpr std::size_t kRecentSteps = 20;  // what "recent" means for speed and lateness
static_assert(kRecentSteps < kRecentStepLines, "the reader leaves out older steps");
constexpr std::size_t kKeptEvents = 8;
constexpr double kSilentSeconds = 5;  // the coordinator writes every second
constexpr std::size_t kMaxStatusBytes = 16U << 20;

void Push(std::deque<SnapshotEvent>* events, const Record& record, std::string text) {
  events->push_back({record.unix_seconds, std::move(text)});
  if (events->size() > kKeptEvents) events->pop_front();
}

std::string Because(const std::string& text) { return text.empty() ? "" : ": " + text; }

// Empty: not worth a line.
std::string MemberEventText(const Record& record, const NoteRecord& note) {
  if (record.type == "join") {
    const std::string place = note.host.empty() ? "" : " from " + note.host;
    return fmt::format("{} joined{}", note.member, place);
  }
  if (record.type == "suspect") {
    return fmt::format("{} suspect: silent for {:.1f} s", note.member, note.seconds.value_or(0));
  }
  if (record.type == "lost") return fmt::format("{} lost{}", note.member, Because(note.text));
  if (record.type == "evict") return fmt::format("{} evicted{}", note.member, Because(note.text));
  if (record.type == "leave") return fmt::format("{} left{}", note.member, Because(note.text));
  if (record.type == "waiting") {
    return fmt::format("waiting: {} of {} workers", note.have.value_or(0), note.need.value_or(0));
  }
  if (record.type == "stall") {
    return fmt::format("stall at step {} for {:.1f} s{}", note.step.value_or(0),
                       note.seconds.value_or(0), Because(note.text));
  }
  if (record.type == "done") return fmt::format("done at step {}", note.step.value_or(0));
  return "";
}

std::string RunEventText(const Record& record, const NoteRecord& note) {
  if (record.type == "warning") return "warning: " + note.text;
  if (record.type == "blame") return note.text;
  if (record.type == "checkpoint" && !note.ok.value_or(true)) {
    return fmt::format("checkpoint of step {} failed{}", note.step.value_or(0), Because(note.text));
  }
  if (record.type == "evaluate" && note.accuracy) {
    return fmt::format("step {}: held-out accuracy {:.1f} %", note.step.value_or(0),
                       100 * *note.accuracy);
  }
  return "";
}

std::optional<double> Finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Mean over the steps of what each rank was busy beyond the fastest.
template <typename Steps>
std::vector<double> LatenessByRank(const Steps& steps) {
  std::vector<double> sums;
  std::uint64_t count = 0;
  for (const auto& step : steps) {
    if (step.busy_seconds.size() < 2) continue;
    if (sums.size() != step.busy_seconds.size()) {
      sums.assign(step.busy_seconds.size(), 0);
      count = 0;
    }
    const double fastest = *std::ranges::min_element(step.busy_seconds);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += step.busy_seconds[i] - fastest;
    ++count;
  }
  for (double& sum : sums) sum /= static_cast<double>(std::max<std::uint64_t>(count, 1));
  return sums;
}

}  // namespace

void RunTracker::AddEvent(const Record& record) {
  if (const auto* start = std::get_if<StartRecord>(&record.body)) {
    const bool resumed = start->step > 0;
    Push(&run_events_, record,
         fmt::format("{} at step {}", resumed ? "resumed" : "started", start->step));
    start_ = *start;
    end_.reset();
    recent_.clear();
  } else if (const auto* view = std::get_if<ViewRecord>(&record.body)) {
    AddView(record, *view, &run_events_);
    view_ = *view;
    end_.reset();
    recent_.clear();
  } else if (const auto* step = std::get_if<StepRecord>(&record.body)) {
    AddStep(record, *step);
  } else if (const auto* end = std::get_if<EndRecord>(&record.body)) {
    Push(&run_events_, record,
         fmt::format("{} at step {}",
                     end->interrupted     ? "interrupted"
                     : end->stopped_early ? "stopped early"
                                          : "ended",
                     end->step));
    end_ = *end;
  } else if (const auto* note = std::get_if<NoteRecord>(&record.body)) {
    std::string text = RunEventText(record, *note);
    if (!text.empty()) Push(&run_events_, record, std::move(text));
  }
}

void RunTracker::AddMember(const Record& record) {
  if (const auto* view = std::get_if<ViewRecord>(&record.body)) {
    AddView(record, *view, &member_events_);
    if (!view_ || view_->generation < view->generation) view_ = *view;
    members_done_ = false;
    return;
  }
  const auto* note = std::get_if<NoteRecord>(&record.body);
  if (note == nullptr) return;
  if (record.type == "coordinator") {
    Push(&member_events_, record,
         fmt::format("coordinator {}{}", coordinator_starts_++ == 0 ? "started" : "restarted",
                     Because(note->text)));
    members_done_ = false;
    return;
  }
  members_done_ = members_done_ || record.type == "done";
  std::string text = MemberEventText(record, *note);
  if (!text.empty()) Push(&member_events_, record, std::move(text));
}

// Leader and coordinator both record a view; it is told once.
void RunTracker::AddView(const Record& record, const ViewRecord& view,
                         std::deque<SnapshotEvent>* events) {
  if (told_generation_ && view.generation <= *told_generation_) return;
  told_generation_ = view.generation;
  Push(
      events, record,
      fmt::format("generation {}: {} member{} from step {}{}", view.generation, view.members.size(),
                  view.members.size() == 1 ? "" : "s", view.step, Because(view.why)));
}

void RunTracker::AddStep(const Record& record, const StepRecord& step) {
  const bool stale = step.generation && view_ && *step.generation < view_->generation;
  if (stale) return;
  const std::uint64_t before = step_ ? step_->samples : 0;
  const std::uint64_t steps_before = step_ ? step_->step : 0;
  const bool follows = step.steps > 0 && step.step > steps_before &&
                       step.step - steps_before == step.steps && step.samples >= before;
  if (follows) {  // else it is not known how many samples it had
    recent_.push_back({step.steps, step.samples - before, step.seconds, step.busy_seconds});
    if (recent_.size() > kRecentSteps) recent_.pop_front();
  }
  step_ = step;
  step_unix_ = record.unix_seconds;
  end_.reset();
}

RunSnapshot RunTracker::Snapshot(double now_unix) const {
  RunSnapshot snapshot;
  if (start_) {
    snapshot.model = start_->model;
    snapshot.total_steps = start_->total_steps;
    snapshot.step = start_->step;
  }
  if (step_) {
    snapshot.step = step_->step;
    snapshot.samples = step_->samples;
    snapshot.loss = Finite(step_->loss);
    snapshot.accuracy = Finite(step_->accuracy);
  }
  if (start_ && start_->plan && start_->plan->dataset_size > 0) {
    snapshot.epoch =
        static_cast<double>(snapshot.samples) / static_cast<double>(start_->plan->dataset_size);
  }
  DescribeState(&snapshot, now_unix);
  DescribeSpeed(&snapshot);
  DescribeMembers(&snapshot);
  MergeEvents(&snapshot);
  return snapshot;
}

void RunTracker::DescribeState(RunSnapshot* snapshot, double now_unix) const {
  snapshot->elastic = status_ || coordinator_starts_ > 0;
  if (view_) snapshot->generation = view_->generation;
  if (status_) {
    snapshot->state = status_->state;
    snapshot->reason = status_->reason;
    snapshot->have = status_->have;
    snapshot->min = status_->min;
    snapshot->max = status_->max;
    snapshot->generation = std::max(status_->generation, snapshot->generation.value_or(0));
  } else {
    snapshot->state = step_ || start_ ? "running" : "starting";
  }
  if (members_done_) snapshot->state = "done";
  if (end_) {
    snapshot->state = end_->interrupted ? "interrupted" : "done";
    snapshot->reason.clear();
  }
  snapshot->over = snapshot->state == "done" || snapshot->state == "interrupted";
  if (step_unix_) snapshot->record_age_seconds = std::max(0.0, now_unix - *step_unix_);
  if (snapshot->over || !status_) return;
  const double age = now_unix - status_->unix_seconds;
  if (age > kSilentSeconds) snapshot->coordinator_silent_seconds = age;
}

void RunTracker::DescribeSpeed(RunSnapshot* snapshot) const {
  double seconds = 0;
  std::uint64_t steps = 0, samples = 0;
  for (const RecentStep& step : recent_) {
    steps += step.steps;
    seconds += step.seconds;
    samples += step.samples;
  }
  if (seconds <= 0) return;
  snapshot->samples_per_second = static_cast<double>(samples) / seconds;
  if (snapshot->over || snapshot->total_steps < snapshot->step) return;
  snapshot->eta_seconds = static_cast<double>(snapshot->total_steps - snapshot->step) * seconds /
                          static_cast<double>(steps);
}

void RunTracker::DescribeMembers(RunSnapshot* snapshot) const {
  const std::vector<double> lateness = LatenessByRank(recent_);
  std::vector<MemberStatus> members;
  if (status_) {
    members = status_->members;
  } else if (view_) {
    for (const ViewMember& each : view_->members) {
      members.push_back({.member = each.member,
                         .rank = each.rank,
                         .host = each.host,
                         .pid = each.pid,
                         .state = snapshot->state,
                         .step = snapshot->step,
                         .phase = {},
                         .heartbeat_age_seconds = {},
                         .rss_bytes = {}});
    }
  } else {
    for (std::size_t i = 0; i < lateness.size(); ++i) {
      members.push_back({.member = fmt::format("rank {}", i),
                         .rank = i,
                         .host = {},
                         .state = snapshot->state,
                         .step = snapshot->step,
                         .phase = {},
                         .heartbeat_age_seconds = {},
                         .rss_bytes = {}});
    }
  }
  for (MemberStatus& member : members) {
    const bool known = member.rank && *member.rank < lateness.size();
    const auto late = known ? std::optional(lateness[*member.rank]) : std::nullopt;
    snapshot->members.push_back({std::move(member), late});
  }
}

void RunTracker::MergeEvents(RunSnapshot* snapshot) const {
  const auto earlier = [](const SnapshotEvent& a, const SnapshotEvent& b) {
    return a.unix_seconds.value_or(0) < b.unix_seconds.value_or(0);
  };
  std::merge(run_events_.begin(), run_events_.end(), member_events_.begin(), member_events_.end(),
             std::back_inserter(snapshot->events), earlier);
  if (snapshot->events.size() <= kKeptEvents) return;
  snapshot->events.erase(snapshot->events.begin(),
                         snapshot->events.end() - static_cast<std::ptrdiff_t>(kKeptEvents));
}

RunFollower::RunFollower(const std::string& path)
    : path_(path),
      events_(RunDirectory(path).EventFile(), RecordDetail::kRecentSteps),
      members_(RunDirectory(path).MembersFile()) {}

Result<RunFollower> RunFollower::Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return Status::Error(Code::kNotFound, fmt::format("there is no run directory {}", path));
  }
  return RunFollower(path);
}

Status RunFollower::ReadRecords() {
  bool again = false;
  const auto restart = [&] { again = true; };
  const auto run_record = [&](const Record& record) {
    any_ = true;
    if (!again) tracker_.AddEvent(record);
  };
  const auto member_record = [&](const Record& record) {
    any_ = true;
    if (!again) tracker_.AddMember(record);
  };
  PACELINE_ASSIGN([[maybe_unused]] const auto members, members_.Poll(member_record, restart));
  PACELINE_ASSIGN([[maybe_unused]] const auto events, events_.Poll(run_record, restart));
  if (!again) return {};
  // Somebody replaced a file: nothing of what was read holds any more.
  tracker_ = RunTracker();
  members_ = RecordFile(members_.path());
  events_ = RecordFile(events_.path(), RecordDetail::kRecentSteps);
  return ReadRecords();
}

Status RunFollower::Refresh() {
  PACELINE_TRY(ReadRecords());
  // Replaced as a whole by its writer, so it is either complete or not there.
  std::ifstream file(RunDirectory(path_).StatusFile(), std::ios::binary);
  std::optional<CoordinatorStatus> status;
  if (file) {
    std::string text;
    std::array<char, 4096> buffer;
    do {
      file.read(buffer.data(), buffer.size());
      text.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
    } while (file && text.size() < kMaxStatusBytes);
    auto parsed = ParseCoordinatorStatus(text);
    if (parsed.ok()) status = *std::move(parsed);
  }
  servers_ = ReadServerRecords(path_);
  any_ = any_ || status.has_value() || !servers_.empty();
  tracker_.SetStatus(std::move(status));
  if (any_) return {};
  return Status::Error(
      Code::kNotFound,
      fmt::format("{} holds no records of a run (events.jsonl, status.json)", path_));
}

RunSnapshot RunFollower::Snapshot(double now_unix) const {
  RunSnapshot snapshot = tracker_.Snapshot(now_unix);
  snapshot.run = path_;
  snapshot.servers = servers_;
  snapshot.torn_lines = events_.damage().torn + members_.damage().torn;
  return snapshot;
}

}  // namespace paceline::job

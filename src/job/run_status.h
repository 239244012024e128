#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "job/record_file.h"
#include "job/run_records.h"
#include "job/server_record.h"

namespace paceline::job {

// A row of the members table.
struct SnapshotMember {
  MemberStatus status;
  std::optional<double> lateness_seconds;  // busy longer than the fastest, mean of recent steps
};

struct SnapshotEvent {
  std::optional<double> unix_seconds;
  std::string text;
};

// A run at one moment, as its files tell it.
struct RunSnapshot {
  std::string run;
  std::string model;
  // starting, running, changing, waiting, done, interrupted
  std::string state;
  std::string reason;
  bool over = false;     // nothing more will come
  bool elastic = false;  // there is a coordinator
  std::uint64_t have = 0, min = 0, max = 0;
  std::optional<std::uint64_t> generation;
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  std::uint64_t samples = 0;
  std::optional<double> epoch;
  std::optional<double> samples_per_second;  // over recent steps
  std::optional<double> eta_seconds;
  std::optional<double> loss;
  std::optional<double> accuracy;                    // of training samples
  std::optional<double> coordinator_silent_seconds;  // only when it is longer than it should be
  std::optional<double> record_age_seconds;          // of the newest step record
  std::vector<SnapshotMember> members;
  std::vector<ServerRecord> servers;  // parameter servers, by index
  std::vector<SnapshotEvent> events;  // the newest last
  std::uint64_t torn_lines = 0;
};

// Keeps what a snapshot needs while records come in, in constant memory. Pure; thread-compatible.
class RunTracker {
 public:
  void AddEvent(const Record& record);   // of events.jsonl
  void AddMember(const Record& record);  // of members.jsonl
  void SetStatus(std::optional<CoordinatorStatus> status) { status_ = std::move(status); }

  // `now_unix` only tells how old things are.
  RunSnapshot Snapshot(double now_unix) const;

 private:
  struct RecentStep {
    std::uint64_t steps = 1;  // one record may cover several
    std::uint64_t samples = 0;
    double seconds = 0;
    std::vector<double> busy_seconds;
  };

  void AddStep(const Record& record, const StepRecord& step);
  void AddView(const Record& record, const ViewRecord& view, std::deque<SnapshotEvent>* events);
  void DescribeState(RunSnapshot* snapshot, double now_unix) const;
  void DescribeSpeed(RunSnapshot* snapshot) const;
  void DescribeMembers(RunSnapshot* snapshot) const;
  void MergeEvents(RunSnapshot* snapshot) const;

  std::optional<StartRecord> start_;
  std::optional<ViewRecord> view_;
  std::optional<StepRecord> step_;
  std::optional<double> step_unix_;
  std::optional<EndRecord> end_;
  std::deque<RecentStep> recent_;  // of the current view and process
  std::optional<CoordinatorStatus> status_;
  bool members_done_ = false;
  std::uint64_t coordinator_starts_ = 0;
  std::optional<std::uint64_t> told_generation_;  // newest view among the events
  std::deque<SnapshotEvent> run_events_;
  std::deque<SnapshotEvent> member_events_;
};

// Follows the files of a run: each Refresh reads only what was appended. Thread-compatible.
class RunFollower {
 public:
  // kNotFound when the directory is not there.
  static Result<RunFollower> Open(const std::string& path);

  // kNotFound as long as there are no records at all.
  Status Refresh();
  RunSnapshot Snapshot(double now_unix) const;

 private:
  explicit RunFollower(const std::string& path);
  Status ReadRecords();

  std::string path_;
  RecordFile events_;
  RecordFile members_;
  RunTracker tracker_;
  std::vector<ServerRecord> servers_;
  bool any_ = false;
};

}  // namespace paceline::job

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "job/run_records.h"

namespace paceline::job {

// Something in a run's records that must not be.
struct Violation {
  // A word for scripts: "gap", "duplicate", "generation", "view", "samples", "lost", "repeated",
  // "state", "plan", "lease", "server" or "end".
  std::string kind;
  std::string text;  // for people, names step and generation
  std::string file;  // "events.jsonl"
  std::uint64_t line = 0;
  std::optional<std::uint64_t> step;
  std::optional<std::uint64_t> generation;
};

// The first violations in detail, and how many there are. A broken file has one in every line.
class ViolationList {
 public:
  static constexpr std::size_t kKept = 100;

  void Add(Violation violation);
  const std::vector<Violation>& kept() const { return kept_; }
  std::uint64_t count() const { return count_; }

 private:
  std::vector<Violation> kept_;
  std::uint64_t count_ = 0;
};

// A view and where its record is.
struct LineageView {
  ViewRecord view;
  std::uint64_t line = 0;
  std::optional<double> unix_seconds;
  bool from_members = false;  // read from members.jsonl, because events.jsonl lacks it
};

struct LineageStart {
  StartRecord start;
  std::uint64_t line = 0;
  std::optional<double> unix_seconds;
};

// A step that counts.
struct LineageStep {
  static constexpr std::uint32_t kNoView = UINT32_MAX;

  std::uint64_t step = 0;               // steps done after it
  std::uint64_t samples = 0;            // since the start of the run
  std::uint32_t view = kNoView;         // index into Lineage::views
  std::uint32_t start = 0;              // index into Lineage::starts
  bool witnessed = false;               // known only from the base of the next view
  bool inside = false;                  // of a record that covers several, not the last
  std::string state;                    // empty when not recorded
  std::uint64_t line = 0;               // of its record, or of the view that witnesses it
  std::uint64_t offset = 0, bytes = 0;  // of its record
};

// What a run's events.jsonl says was done: the steps that count, in order, after removing those
// that were done again. Immutable value.
struct Lineage {
  std::vector<LineageStart> starts;
  std::vector<LineageView> views;
  std::vector<LineageStep> steps;     // each step once, ascending
  std::uint64_t first_step = 0;       // steps done before the first record
  std::uint64_t repeated_steps = 0;   // records that a later view or resume made void
  std::uint64_t late_records = 0;     // written by a leader that had been replaced already
  std::uint64_t witnessed_steps = 0;  // committed, but their leader died before writing them
  std::uint64_t step_records = 0;
  std::vector<std::string> notes;  // worth knowing, no violation
  std::optional<EndRecord> end;    // of the last process, if it ended in order
  std::uint64_t end_line = 0;
  ViolationList violations;

  std::uint64_t LastStep() const { return steps.empty() ? first_step : steps.back().step; }
};

// Builds a lineage from records in the order of the file.
//
// A step record of generation g counts unless a view of a later generation, or a later start, has a
// base below it: then it was, or will be, done again. This holds wherever the record stands, since
// a leader that was paused may write its last record after its successor's first.
// A view whose base is one above the last recorded step witnesses that step: the leader committed
// it together with the others and died before its record was written. More than one such step
// cannot be explained that way and is a gap. With parameter servers a start witnesses the steps of
// one push: it says what the servers have. Where samples are lent, steps say nothing about which
// samples were done, and there are none in the lineage.
// Thread-compatible.
class LineageBuilder {
 public:
  // Views of members.jsonl by generation, for those that events.jsonl lacks; must outlive this.
  explicit LineageBuilder(const std::map<std::uint64_t, LineageView>* known_views = nullptr)
      : known_views_(known_views) {}

  void Add(const Record& record);
  Lineage Finish();

 private:
  struct Superseded {
    std::string state;
    std::uint64_t line = 0;
    std::uint64_t threads = 0;
  };

  void AddStart(const Record& record, const StartRecord& start);
  void AddView(const Record& record, const ViewRecord& view);
  void AddStep(const Record& record, const StepRecord& step);
  void AddEnd(const Record& record, const EndRecord& end);
  void OpenView(LineageView view);
  bool ViewOf(const Record& record, const StepRecord& step);
  void AddLate(const Record& record, const StepRecord& step);
  void AddDuplicate(const Record& record, const StepRecord& step, const LineageStep& first);
  void GoBackTo(std::uint64_t base);
  void CloseGap(const Record& record, std::uint64_t base, const char* what,
                std::uint64_t witnessable);
  void AddWitnessed(const Record& record, std::uint64_t step);
  bool Leased() const { return !lineage_.starts.empty() && lineage_.starts.back().start.leased; }
  void CompareWithSuperseded(const LineageStep& step);
  LineageStep Entry(const Record& record, const StepRecord& step) const;
  LineageStep* Find(std::uint64_t step);
  std::uint32_t FindView(std::uint64_t generation) const;
  const LineageView* KnownView(std::uint64_t generation) const;
  std::uint64_t Last() const;
  std::uint64_t LowestBaseAfter(std::uint64_t generation) const;
  void Violate(const char* kind, const Record& record, std::string text);
  std::uint64_t ThreadsNow() const;

  const std::map<std::uint64_t, LineageView>* known_views_;
  Lineage lineage_;
  bool begun_ = false;                                        // first_step is known
  std::uint64_t floor_ = 0;                                   // a gap up to here has been reported
  bool view_since_start_ = false;                             // steps need a generation
  std::unordered_map<std::uint64_t, Superseded> superseded_;  // by step, until it is done again
};

}  // namespace paceline::job

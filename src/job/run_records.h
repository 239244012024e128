#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "algo/batch_plan.h"
#include "base/status.h"

namespace paceline::job {

// The lines of a run's events.jsonl and members.jsonl as values; docs/formats.md lists the fields.
// Unknown types become NoteRecord, unknown fields are ignored. All immutable values.

// A process began or resumed the run.
struct StartRecord {
  std::string run;
  std::string model;
  std::uint64_t step = 0;  // already done
  std::uint64_t total_steps = 0;
  std::uint64_t threads = 0;
  std::uint64_t workers = 0;
  std::uint64_t push_steps =
      0;                // that a trainer pushes to parameter servers at once; 0: no servers
  bool leased = false;  // trainers come and go, and samples are lent: members.jsonl
  std::optional<algo::BatchPlan> plan;  // absent in records of older versions
};

struct ViewMember {
  std::string member;
  std::uint64_t rank = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::uint64_t first_shard = 0;
  std::uint64_t end_shard = 0;
  friend bool operator==(const ViewMember&, const ViewMember&) = default;
};

// Who owns which shards from here on.
struct ViewRecord {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;  // committed when the view began: its base
  std::vector<ViewMember> members;
  std::string why;
};

// A step was committed or skipped.
struct StepRecord {
  std::optional<std::uint64_t> generation;  // absent in runs that are not elastic
  std::uint64_t step = 0;                   // steps done after it
  std::uint64_t steps = 1;                  // that it covers: several when they are pushed together
  std::uint64_t samples = 0;                // since the start of the run
  double loss = 0;                          // NaN when the record has none
  double accuracy = 0;
  double lr = 0;
  bool applied = true;
  double seconds = 0;
  std::vector<double> busy_seconds;  // by rank; may be empty
  std::string state;                 // hash over all state; empty unless --reproducible
};

struct EndRecord {
  std::uint64_t step = 0;
  std::string params_hash;
  bool interrupted = false;
  bool stopped_early = false;  // as the user wanted: --patience
};

// Samples were lent to a worker, finished by it, or came back from it.
struct LeaseRecord {
  std::string member;
  std::uint64_t lease = 0;
  algo::PositionRange range;
  std::uint64_t done = 0;  // samples of the range that are applied
};

// Everything else: what happened to whom. A field that the line lacks is empty or absent.
struct NoteRecord {
  std::string member;
  std::string host;
  std::optional<std::uint64_t> pid;
  std::optional<std::uint64_t> step;
  std::optional<std::uint64_t> generation;
  std::optional<std::uint64_t> have;
  std::optional<std::uint64_t> need;
  std::optional<double> seconds;
  std::optional<double> accuracy;
  std::optional<bool> ok;
  std::string text;  // `why`, `text`, `message` or `endpoint`
};

struct Record {
  std::string type;
  double time = 0;                     // monotonic, of the process that wrote it
  std::optional<double> unix_seconds;  // wall clock, only for showing
  std::variant<NoteRecord, StartRecord, ViewRecord, StepRecord, EndRecord, LeaseRecord> body;
  // Where it was found.
  std::uint64_t line = 0;    // from 1
  std::uint64_t offset = 0;  // of its first byte in the file
  std::uint64_t bytes = 0;
};

// One JSON object. kProtocol: not an object with a type, so a torn line. kBadData: a known type
// whose required fields are missing or mistyped. Pure.
Result<Record> ParseRecord(std::string_view text);

// Name and hash of each tensor of a `step` line, in the line's order. Empty when it has none.
using TensorHashes = std::vector<std::pair<std::string, std::string>>;
TensorHashes ParseTensorHashes(std::string_view text);

// RUN/status.json: what the coordinator saw last.
struct MemberStatus {
  std::string member;
  std::optional<std::uint64_t> rank;  // absent when not in the view
  std::string host;
  std::uint64_t pid = 0;
  std::string state;
  std::uint64_t step = 0;
  std::string phase;
  double phase_seconds = 0;
  std::optional<double> heartbeat_age_seconds;
  std::optional<std::uint64_t> rss_bytes;
};

struct CoordinatorStatus {
  double unix_seconds = 0;
  std::uint64_t generation = 0;
  std::string state;
  std::string reason;
  std::uint64_t have = 0;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  std::vector<MemberStatus> members;
};

// kBadData when the text is not such an object. Pure.
Result<CoordinatorStatus> ParseCoordinatorStatus(std::string_view text);

// Without control characters, so that a text from a file cannot steer a terminal.
std::string Printable(std::string_view text);

}  // namespace paceline::job

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "member/lease_ledger.h"
#include "wire/control.h"

namespace paceline::member {

// The rules of an elastic job.
struct MembershipOptions {
  std::uint64_t min_workers = 1;
  std::uint64_t max_workers = 1;
  std::uint64_t start_workers = 1;                  // begin when so many are ready...
  std::chrono::milliseconds start_timeout{60'000};  // ...or after this, with the minimum
  std::chrono::milliseconds heartbeat{500};
  std::chrono::milliseconds suspect{2'000};
  std::chrono::milliseconds dead{5'000};
  std::chrono::milliseconds elastic_timeout{600'000};  // below the minimum; then the run ends
  std::chrono::milliseconds stop_timeout{60'000};      // for a member that lives but does not stop
  std::chrono::milliseconds stall{30'000};             // without a step before somebody is named
  // Not 0: workers do not step together, and samples are lent to them, so many at a time. How many
  // there are is what the first worker says.
  std::uint64_t lease_samples = 0;

  Status Validate() const;
};

enum class RunPhase : std::uint8_t { kStarting, kRunning, kChanging, kWaiting, kDone };
const char* RunPhaseName(RunPhase phase);

// What survives a coordinator: saved before every view is announced.
struct CoordinatorState {
  std::uint64_t cluster = 0;
  Generation generation;  // of the last view; 0: none yet
  MemberId last_member;   // the newest number given out
  struct Seat {
    MemberId member;
    std::uint64_t incarnation = 0;
    std::uint64_t pid = 0;
    wire::Member at;

    friend bool operator==(const Seat&, const Seat&) = default;
  };
  std::vector<Seat> view;  // by rank
  std::string fingerprint;
  LeaseLedger leases;

  std::string Encode() const;
  static Result<CoordinatorState> Decode(std::string_view bytes);
  friend bool operator==(const CoordinatorState&, const CoordinatorState&) = default;
};

// One line of the membership's history: members.jsonl (docs/formats.md).
struct Note {
  std::string type;  // join, ready, suspect, lost, evict, leave, view, waiting, stall, done,
                     // lease, lease-done, lease-back
  std::optional<MemberId> member;
  std::string why;
  std::map<std::string, double> numbers;
  std::vector<wire::Assignment::Seat> seats;  // of a view
};

// For status.json.
struct MembershipStatus {
  RunPhase phase = RunPhase::kStarting;
  Generation generation;
  std::string reason;
  std::uint64_t have = 0, min = 0, max = 0;
  struct Line {
    MemberId member;
    std::optional<Rank> rank;
    std::string host;
    std::uint64_t pid = 0;
    std::string state;
    Step next_step;
    std::string phase;
    double phase_seconds = 0, heartbeat_age_seconds = 0;
    std::uint64_t rss_bytes = 0;
  };
  std::vector<Line> members;
};

// "worker 3", for people.
std::string WorkerName(MemberId id);

// Where the state of a new view comes from.
struct StateSource {
  Rank root;               // the most advanced; the first one when nobody has a state
  bool from_disk = false;  // nobody has: the root restores a checkpoint or starts afresh
  bool transfer = true;    // somebody is not where the root is
};
StateSource ChooseStateSource(const wire::Assignment& view);

}  // namespace paceline::member

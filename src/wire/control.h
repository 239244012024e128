#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "wire/messages.h"

// What a worker and the coordinator of an elastic job say to each other (kControl frames).
// docs/wire.md describes the bytes, docs/elastic.md the conversation.
namespace paceline::wire {

// How far a worker's model is.
struct Progress {
  bool has_state = false;  // it holds the model after next_step steps, not only a fresh one
  Step next_step;          // steps committed

  friend bool operator==(const Progress&, const Progress&) = default;
};

// Worker: first message of a connection. After a lost coordinator the same worker says it again.
struct Register {
  MemberId member;  // 0: not known yet
  std::uint64_t incarnation = 0;
  Member self;  // the rank is not used; the address is where it waits for the next view
  std::uint64_t pid = 0;
  std::string fingerprint;  // of everything that must be equal on all workers
  Generation generation;    // of the view it works in; 0: none
  bool ready = false;       // warmed up: may become part of a view
  bool stopped = false;     // has given up its view and waits for another
  Progress progress;
  std::uint64_t samples = 0;  // of the whole run, where they are lent; 0: they are not

  friend bool operator==(const Register&, const Register&) = default;
};

// Worker: warmed up.
struct Ready {
  friend bool operator==(const Ready&, const Ready&) = default;
};

// Worker: alive, and what it is doing.
struct Heartbeat {
  std::uint64_t sequence = 0;
  Step next_step;
  std::string phase;
  std::uint64_t phase_milliseconds = 0;  // for how long
  std::uint64_t rss_bytes = 0;

  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// Worker: will commit nothing more in this generation.
struct Stopped {
  Generation generation;
  Progress progress;
  std::string address;                      // where it waits for the next view
  std::uint64_t blamed = Failure::kNobody;  // rank of that view
  std::string why;

  friend bool operator==(const Stopped&, const Stopped&) = default;
};

// Worker: asks to go.
struct Leaving {
  friend bool operator==(const Leaving&, const Leaving&) = default;
};

// Worker: the training is complete (or was stopped by the user) and saved.
struct Finished {
  Step next_step;
  bool interrupted = false;

  friend bool operator==(const Finished&, const Finished&) = default;
};

// Worker of a run whose workers do not step together: has nothing to compute.
struct LeaseRequest {
  friend bool operator==(const LeaseRequest&, const LeaseRequest&) = default;
};

// Worker: so many samples of a lease, from its first, are applied.
struct LeaseProgress {
  std::uint64_t lease = 0;
  std::uint64_t done = 0;

  friend bool operator==(const LeaseProgress&, const LeaseProgress&) = default;
};

// Coordinator: you are this member.
struct Registered {
  MemberId member;
  std::uint64_t cluster = 0;
  std::uint64_t heartbeat_milliseconds = 0;
  std::uint64_t dead_milliseconds = 0;

  friend bool operator==(const Registered&, const Registered&) = default;
};

// Coordinator: heard you.
struct HeartbeatAck {
  std::uint64_t sequence = 0;

  friend bool operator==(const HeartbeatAck&, const HeartbeatAck&) = default;
};

// Coordinator: this generation ends; answer with Stopped.
struct Pause {
  Generation generation;
  bool at_step_end = false;  // else at once
  std::string why;

  friend bool operator==(const Pause&, const Pause&) = default;
};

// Coordinator: the next view.
struct Assignment {
  struct Seat {
    MemberId member;
    std::uint64_t pid = 0;
    Member at;
    Progress progress;

    friend bool operator==(const Seat&, const Seat&) = default;
  };
  std::uint64_t cluster = 0;
  Generation generation;
  std::vector<Seat> seats;  // by rank
  std::string why;

  View AsView() const;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Coordinator: go. kOk: the run is over, or you asked for it.
struct Release {
  Code code = Code::kOk;
  bool save = false;  // first write a checkpoint: nobody else will
  std::string why;

  friend bool operator==(const Release&, const Release&) = default;
};

// Coordinator: compute these samples. `done` of them, from the first, are known to be applied.
struct LeaseGrant {
  std::uint64_t lease = 0;
  std::uint64_t begin = 0, count = 0;  // positions of the run
  std::uint64_t done = 0;

  friend bool operator==(const LeaseGrant&, const LeaseGrant&) = default;
};

using Control =
    std::variant<Register, Ready, Heartbeat, Stopped, Leaving, Finished, Registered, HeartbeatAck,
                 Pause, Assignment, Release, LeaseRequest, LeaseProgress, LeaseGrant>;

std::vector<std::byte> EncodeControl(const Control& message);
// kProtocol for anything that EncodeControl cannot have written.
Result<Control> DecodeControl(std::span<const std::byte> bytes);
const char* ControlName(const Control& message);

}  // namespace paceline::wire

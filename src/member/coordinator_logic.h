#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "member/membership.h"
#include "wire/control.h"

namespace paceline::member {

using ConnectionId = std::uint64_t;

// What the shell around the logic has to do, in this order.
struct SendControl {
  ConnectionId to = 0;
  wire::Control message;
};
struct CloseConnection {
  ConnectionId connection = 0;
  Code code = Code::kOk;  // kOk: after what was sent; else told as the reason
  std::string why;
};
struct SaveState {
  CoordinatorState state;
};
struct EndRun {
  Code code = Code::kOk;
  std::string why;
};
using Action = std::variant<SendControl, CloseConnection, SaveState, Note, EndRun>;
using Actions = std::vector<Action>;

// Decides who works together: events in, actions out, no clock, no socket, no file. A view is
// replaced when a member of it is lost (at once), or wants to leave, or when a worker that is ready
// can be taken in (both at the end of a step). Every member of the old view that lives must have
// stopped before the next one is announced, and the next one is saved before it is announced; so no
// two views are ever at work together, and no generation is given twice. With leases workers do not
// step together: a view only says who is there, nobody has to stop for the next one, and samples
// are lent; what was lent is saved before it is told. Thread-compatible.
class CoordinatorLogic {
 public:
  // With `saved`, continues after a coordinator that died: its members are expected back.
  CoordinatorLogic(const MembershipOptions& options, CoordinatorState saved, Instant now);

  Actions OnRegister(ConnectionId connection, const wire::Register& message, Instant now);
  Actions OnMessage(ConnectionId connection, const wire::Control& message, Instant now);
  Actions OnClosed(ConnectionId connection, Instant now);
  // At least every heartbeat interval.
  Actions OnTick(Instant now);

  MembershipStatus StatusAt(Instant now) const;
  bool ended() const { return phase_ == RunPhase::kDone; }

 private:
  struct Person {
    wire::Member self;
    std::uint64_t incarnation = 0, pid = 0;
    std::optional<ConnectionId> connection;
    Instant heard{};
    wire::Progress progress;
    wire::Heartbeat beat;
    bool ready = false;
    bool stopped = false;  // in the current view, but at work no more
    bool leaving = false;
    bool saving = false;  // released, but the others wait for its checkpoint
    bool finished = false;
    bool suspect = false;
    bool wants_lease = false;
    std::uint64_t blamed = 0;  // times in a row that others could not reach it
  };
  using Iterator = std::map<MemberId, Person>::iterator;

  void Add(ConnectionId connection, const wire::Register& message);
  void Return(Iterator who, ConnectionId connection, const wire::Register& message);
  std::string WrongWith(const wire::Register& message) const;
  void Welcome(const Person& person, MemberId id);
  void OnReady();
  void OnStopped(Iterator who, const wire::Stopped& message);
  void Blame(MemberId id);
  void OnLeaseProgress(Iterator who, const wire::LeaseProgress& message);
  void Lend();
  void GiveBack(MemberId id);
  void OnFinished(Iterator who, const wire::Finished& message);
  void EndIfFinished();
  void Lose(Iterator who, const std::string& why, Code told);
  bool ReleaseLeavers();
  void StartChange(bool at_step_end, const std::string& why);
  void ConsiderPolite();
  void TryToForm();
  void Form(const std::vector<MemberId>& seats);
  wire::Assignment CurrentView() const;
  void CheckSilence();
  void CheckStopping();
  void CheckStall();
  void End(Code code, const std::string& why);

  bool leased() const { return options_.lease_samples > 0; }
  bool InView(MemberId id) const;
  bool AllStopped() const;
  bool AllFinished() const;
  std::vector<MemberId> Candidates() const;
  std::optional<MemberId> MostAdvanced() const;
  Iterator Find(ConnectionId connection);
  void Send(const Person& person, wire::Control message);
  void Tell(Note note) { actions_.emplace_back(std::move(note)); }
  Actions Take() { return std::exchange(actions_, {}); }

  MembershipOptions options_;
  CoordinatorState state_;
  RunPhase phase_ = RunPhase::kStarting;
  std::map<MemberId, Person> people_;  // those of the view who are missing here are lost
  Instant now_;                        // of the event in progress
  Instant began_;
  std::string change_why_;    // of the change in progress, or the last one
  bool hard_change_ = false;  // it does not wait for the end of the step
  Instant stopping_since_{}, waiting_since_{};
  Step view_base_;  // steps that were committed when the view was formed
  std::optional<wire::Finished> finished_;
  Step furthest_;
  Instant furthest_at_;
  bool stall_told_ = false;
  Actions actions_;
};

}  // namespace paceline::member

#pragma once

#include <vector>

namespace paceline::collective {

// The cores of this host whose ranks have nothing to do: they sleep in an operation that this rank
// has not reached yet. A thread of this rank may use one of them until it has. Await() and Idle()
// are for that one thread, End() is thread-safe.
class IdleCores {
 public:
  virtual ~IdleCores() = default;
  // Returns true when some rank has gone to sleep before this rank arrived; false after End().
  virtual bool Await() = 0;
  // Whether what Await() said still holds.
  virtual bool Idle() const = 0;
  // Numbers of the CPUs on which the other ranks of this host run; empty: anywhere.
  virtual std::vector<int> CpusOfOthers() const = 0;
  virtual void End() = 0;
};

}  // namespace paceline::collective

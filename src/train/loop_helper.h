#pragma once

#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "collective/idle_cores.h"

namespace paceline::train {

// A thread that takes over parts of this worker's loops while another worker of the host waits for
// it, on that worker's core: the sooner the slowest is done, the sooner all go on. Whoever waits is
// behind the same meeting, so the core is free until this worker gets there. Bits do not change as
// long as the parts of a loop are independent of each other. Run() and Scope are for the thread
// that computes; the rest is the thread's own.
class LoopHelper {
 public:
  // Borrows the cores; nobody else may use them.
  explicit LoopHelper(collective::IdleCores& cores);
  LoopHelper(const LoopHelper&) = delete;
  LoopHelper& operator=(const LoopHelper&) = delete;
  ~LoopHelper();

  // Whether it would help now.
  bool Ready() const { return ready_.load(std::memory_order_relaxed); }
  // body(i) for each i below `parts`, each once, on both threads. It must not throw.
  void Run(std::size_t parts, const std::function<void(std::size_t)>& body);
  // Of all loops, those that the helper did.
  std::uint64_t parts_helped() const { return helped_.load(std::memory_order_relaxed); }

  // The helper of loops on this thread; null: there is none.
  static LoopHelper* Current();
  class Scope {
   public:
    explicit Scope(LoopHelper* helper);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    LoopHelper* before_;
  };

 private:
  struct Loop {
    const std::function<void(std::size_t)>& body;
    std::size_t parts;
    std::fenv_t arithmetic{};  // rounding and denormals of the thread that computes
    std::atomic<std::size_t> next{0};
  };

  void Serve();
  void Help();
  static std::size_t TakeParts(Loop& loop);

  collective::IdleCores& cores_;
  std::atomic<bool> ready_{false};
  std::atomic<Loop*> loop_{nullptr};
  std::atomic<bool> inside_{false};  // the helper looks at the loop, which must stay
  std::atomic<std::uint64_t> helped_{0};
  std::jthread thread_;
};

}  // namespace paceline::train

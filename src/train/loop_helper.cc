#include "train/loop_helper.h"

#include <sched.h>

#include "base/thread.h"

namespace paceline::train {

namespace {

// Turns without a loop after which the helper sleeps until another worker waits: some milliseconds.
// Between two loops of a step there are microseconds.
constexpr int kMostIdleTurns = 100'000;

thread_local LoopHelper* current_helper = nullptr;

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Workers are pinned, and on its own worker's core the helper would be in the way.
void MoveTo(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof(set), &set);  // where that is not allowed it stays
}

}  // namespace

LoopHelper::LoopHelper(collective::IdleCores& cores)
    : cores_(cores), thread_(StartThread("loop-helper", [this] { Serve(); })) {}

LoopHelper::~LoopHelper() { cores_.End(); }

void LoopHelper::Serve() {
  for (bool moved = false; cores_.Await(); moved = true) {
    if (!moved) MoveTo(cores_.CpusOfOthers());  // before somebody waits they may not be known
    ready_.store(true, std::memory_order_relaxed);
    Help();
    ready_.store(false, std::memory_order_relaxed);
  }
}

// It looks for a loop before it goes inside: a thread that is stopped just there, as happens in
// virtual machines, must not hold up a worker that has nothing for it.
void LoopHelper::Help() {
  for (int idle = 0; idle < kMostIdleTurns && cores_.Idle(); ++idle) {
    if (loop_.load(std::memory_order_seq_cst) == nullptr) {
      Relax();
      continue;
    }
    inside_.store(true, std::memory_order_seq_cst);
    if (Loop* const loop = loop_.load(std::memory_order_seq_cst); loop != nullptr) {
      std::fesetenv(&loop->arithmetic);
      helped_.fetch_add(TakeParts(*loop), std::memory_order_relaxed);
      idle = 0;
    }
    inside_.store(false, std::memory_order_seq_cst);
  }
}

std::size_t LoopHelper::TakeParts(Loop& loop) {
  std::size_t taken = 0;
  for (std::size_t i = loop.next.fetch_add(1); i < loop.parts; i = loop.next.fetch_add(1)) {
    loop.body(i);
    ++taken;
  }
  return taken;
}

void LoopHelper::Run(std::size_t parts, const std::function<void(std::size_t)>& body) {
  Loop loop{.body = body, .parts = parts};
  std::fegetenv(&loop.arithmetic);
  loop_.store(&loop, std::memory_order_seq_cst);
  TakeParts(loop);
  loop_.store(nullptr, std::memory_order_seq_cst);
  while (inside_.load(std::memory_order_seq_cst)) Relax();
}

LoopHelper* LoopHelper::Current() { return current_helper; }

LoopHelper::Scope::Scope(LoopHelper* helper) : before_(current_helper) { current_helper = helper; }

LoopHelper::Scope::~Scope() { current_helper = before_; }

}  // namespace paceline::train

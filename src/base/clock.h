#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace paceline {

// Time since an arbitrary start; never jumps. All durations and deadlines use it.
using Instant = std::chrono::nanoseconds;

// Where time comes from. Injected, so that tests decide what time it is. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const = 0;
  // Seconds since 1970, for people and file names only.
  virtual std::int64_t UnixSeconds() const = 0;
};

// CLOCK_MONOTONIC and the wall clock of the machine.
const Clock& SystemClock();

// Stands still until it is told to move.
class FakeClock final : public Clock {
 public:
  Instant Now() const override { return Instant(now_.load()); }
  std::int64_t UnixSeconds() const override { return unix_seconds_.load(); }
  void Advance(std::chrono::nanoseconds by) { now_ += by.count(); }
  void SetUnixSeconds(std::int64_t seconds) { unix_seconds_ = seconds; }

 private:
  std::atomic<std::int64_t> now_{0};
  std::atomic<std::int64_t> unix_seconds_{1'700'000'000};
};

inline double ToSeconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace paceline

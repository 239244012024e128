// Preloaded into programs under test: the wall clock jumps back and forth by hours and by a day,
// at moments that differ from process to process. The monotonic clock is left alone.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr long kShifts[] = {0, 3'600, -3'600, 86'400, -86'400};
constexpr long kSecond = 1'000'000'000;

int ReadClock(clockid_t clock, timespec* to) {
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, to));
}

// Another shift every tenth of a second.
long Shift() {
  timespec now{};
  ReadClock(CLOCK_MONOTONIC, &now);
  const long tenths = now.tv_sec * 10 + now.tv_nsec / (kSecond / 10);
  return kShifts[(tenths + ::getpid()) % 5];
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* to) noexcept {
  const int result = ReadClock(clock, to);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) to->tv_sec += Shift();
  return result;
}

int gettimeofday(timeval* to, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *to = {now.tv_sec, now.tv_nsec / 1'000};
  return result;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}
}

#include "job/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace paceline::job {

namespace {

std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

constexpr char kMessage[] = "\nstopping after this step; Ctrl-C again ends at once\n";

void OnSignal(int signal) {
  const int before = g_stop_signal.exchange(signal);
  if (before != 0 && signal == SIGINT) ::_exit(130);
  if (before == 0) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
}

}  // namespace

void InstallStopSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

int StopRequested() { return g_stop_signal.load(); }

}  // namespace paceline::job

#include "job/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace paceline::job {

namespace {

std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void OnSignal(int signal) {
  if (g_stop_signal.exchange(signal) != 0 && signal == SIGINT) ::_exit(130);
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

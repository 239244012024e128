#include "job/stop_signal.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/thread.h"

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

StopSignals::StopSignals() {
  sigset_t stopping;
  ::sigemptyset(&stopping);
  ::sigaddset(&stopping, SIGINT);
  ::sigaddset(&stopping, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &stopping, &before_);
  signals_.Reset(::signalfd(-1, &stopping, SFD_CLOEXEC | SFD_NONBLOCK));
  PACELINE_CHECK(signals_.valid(), "a descriptor for signals");
}

StopSignals::~StopSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int StopSignals::Next() const {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

StopWatcher::StopWatcher(std::stop_source source) : source_(std::move(source)) {
  end_.Reset(::eventfd(0, EFD_CLOEXEC));
  PACELINE_CHECK(end_.valid(), "a descriptor for the end");
  thread_ = StartThread("stop-watcher", [this] { Watch(); });
}

StopWatcher::~StopWatcher() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(end_.get(), &one, sizeof(one));
  thread_.join();
}

void StopWatcher::Watch() {
  for (;;) {
    pollfd waits[2] = {{signals_.fd(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) return;
    const int signal = signals_.Next();
    if (signal == 0) continue;
    if (source_.stop_requested() && signal == SIGINT) ::_exit(130);
    source_.request_stop();
  }
}

}  // namespace paceline::job

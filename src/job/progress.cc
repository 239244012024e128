#include "job/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace paceline::job {

namespace {

using namespace std::chrono_literals;

// Redrawing more often than the eye follows only costs time; log files want even less.
constexpr auto kRedraw = 100ms;
constexpr auto kLineInterval = 10s;

int TerminalWidth() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

}  // namespace

std::string RenderDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

std::string RenderProgress(const ProgressState& state, int width) {
  const double share = state.total_steps == 0 ? 0
                                              : static_cast<double>(state.step) /
                                                    static_cast<double>(state.total_steps);
  const std::string head = fmt::format("{}: {:3.0f}%|", state.model, 100 * share);
  const std::string accuracy =
      std::isnan(state.accuracy) ? "" : fmt::format("acc {:.1f} %, ", 100 * state.accuracy);
  const std::string tail =
      fmt::format("| {}/{} [epoch {:.2f}, loss {:.4f}, {}{:.1f} samples/s, ETA {}]", state.step,
                  state.total_steps, state.epoch, state.loss, accuracy, state.samples_per_second,
                  RenderDuration(state.seconds_left));
  const int room = width - static_cast<int>(head.size() + tail.size());
  const int bar = std::clamp(room, 0, 30);
  const int filled = static_cast<int>(std::lround(share * bar));
  const std::string line = head + std::string(static_cast<std::size_t>(filled), '#') +
                           std::string(static_cast<std::size_t>(bar - filled), ' ') + tail;
  return line.substr(0, static_cast<std::size_t>(std::max(width, 0)));
}

void Progress::Update(const ProgressState& state) {
  if (style_ == ProgressStyle::kOff) return;
  const bool last_step = state.step == state.total_steps;
  const auto interval =
      style_ == ProgressStyle::kTerminal ? Instant(kRedraw) : Instant(kLineInterval);
  if (any_ && !last_step && clock_.Now() - last_ < interval) return;
  any_ = true;
  last_ = clock_.Now();
  if (style_ == ProgressStyle::kTerminal) {
    std::fprintf(stderr, "\r\033[K%s", RenderProgress(state, TerminalWidth() - 1).c_str());
    line_open_ = true;
  } else {
    std::fprintf(stderr, "%s\n", RenderProgress(state, 160).c_str());
  }
  std::fflush(stderr);
}

void Progress::Note(const std::string& text) {
  if (style_ == ProgressStyle::kOff) return;
  Finish();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::Finish() {
  if (line_open_) std::fputc('\n', stderr);
  line_open_ = false;
}

ProgressStyle DetectProgressStyle() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(STDERR_FILENO) != 0 && !dumb ? ProgressStyle::kTerminal : ProgressStyle::kLines;
}

}  // namespace paceline::job

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "cli/parse.h"
#include "job/live_screen.h"
#include "job/run_status.h"
#include "job/status_view.h"
#include "job/stop_signal.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

constexpr char kStatusName[] = "paceline status";
constexpr char kTopName[] = "paceline top";

struct TopArguments {
  std::string run;
  double interval = 1;
  bool once = false;
  std::string format;
};

double NowUnix() { return static_cast<double>(SystemClock().UnixSeconds()); }

bool StdoutIsScreen() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// https://no-color.org: present and not empty.
job::TextStyle ChooseStyle() {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = !StdoutIsScreen() || (no_color != nullptr && *no_color != '\0');
  return plain ? job::TextStyle::kPlain : job::TextStyle::kColor;
}

// Empty format: a table.
Result<std::optional<job::CsvHeader>> ParseFormat(const std::string& format) {
  if (format.empty()) return std::optional<job::CsvHeader>();
  if (format == "csv") return std::optional(job::CsvHeader::kWith);
  if (format == "csv,noheader") return std::optional(job::CsvHeader::kWithout);
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("--format takes csv or csv,noheader, not '{}'", format));
}

// Waits for the time to draw again; true when a signal asks to end.
bool WaitOrStop(const job::StopSignals& signals, std::chrono::milliseconds interval) {
  pollfd wait{signals.fd(), POLLIN, 0};
  ::poll(&wait, 1, static_cast<int>(interval.count()));
  return signals.Next() != 0;
}

// Shows the run until it is over, a signal comes, or once.
Status ShowUntilOver(const TopArguments& arguments, std::optional<job::CsvHeader> csv) {
  PACELINE_ASSIGN(job::RunFollower follower, job::RunFollower::Open(arguments.run));
  PACELINE_TRY(follower.Refresh());
  const job::TextStyle style = ChooseStyle();
  const std::chrono::milliseconds interval(static_cast<int>(arguments.interval * 1000));
  const job::StopSignals signals;
  std::optional<job::LiveScreen> screen;
  if (StdoutIsScreen() && !arguments.once && !csv) screen.emplace(STDOUT_FILENO);
  std::string text;
  for (bool first = true;; first = false) {
    const double now = NowUnix();
    const job::RunSnapshot snapshot = follower.Snapshot(now);
    text = csv ? job::StatusCsv(snapshot, first ? *csv : job::CsvHeader::kWithout)
               : job::StatusText(snapshot, now, style);
    if (screen) {
      screen->Draw(text);
    } else {
      fmt::print("{}{}", first || csv ? "" : "\n", text);
      std::fflush(stdout);
    }
    if (arguments.once || snapshot.over || WaitOrStop(signals, interval)) break;
    PACELINE_TRY(follower.Refresh());
  }
  const bool was_screen = screen.has_value();
  screen.reset();
  if (was_screen) fmt::print("{}", text);  // what was seen last stays
  return {};
}

Status ShowOnce(const std::string& run, bool json) {
  PACELINE_ASSIGN(job::RunFollower follower, job::RunFollower::Open(run));
  PACELINE_TRY(follower.Refresh());
  const double now = NowUnix();
  const job::RunSnapshot snapshot = follower.Snapshot(now);
  fmt::print("{}", json ? job::StatusJson(snapshot) + "\n"
                        : job::StatusText(snapshot, now, ChooseStyle()));
  return {};
}

}  // namespace

int RunStatus(const std::vector<std::string>& raw) {
  CLI::App app("Show where a run stands, from its files alone; also when its coordinator is dead.",
               kStatusName);
  std::string run;
  bool json = false;
  app.add_option("RUN", run, "Run directory")->required()->option_text(" ");
  app.add_flag("--json", json, "Print one JSON object");
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  const Status shown = ShowOnce(run, json);
  return shown.ok() ? 0 : Fail(kStatusName, shown);
}

int RunTop(const std::vector<std::string>& raw) {
  CLI::App app("Watch a run: the screen of `paceline status`, drawn again and again until it ends.",
               kTopName);
  TopArguments arguments;
  app.add_option("RUN", arguments.run, "Run directory")->required()->option_text(" ");
  app.add_option("--interval", arguments.interval, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->option_text("SECONDS=1");
  app.add_flag("--once", arguments.once, "Look once and end");
  app.add_option("--format", arguments.format,
                 "The table of members for scripts; without its first line on request")
      ->option_text("csv[,noheader]");
  app.footer(
      "Ctrl-C ends it; the run does not notice. Without a terminal each look is a block of\n"
      "lines. NO_COLOR=1 and TERM=dumb are respected.");
  if (const auto exit = ParseArguments(app, raw)) return *exit;
  const auto csv = ParseFormat(arguments.format);
  if (!csv.ok()) return Fail(kTopName, csv.status());
  const Status shown = ShowUntilOver(arguments, *csv);
  return shown.ok() ? 0 : Fail(kTopName, shown);
}

}  // namespace paceline::cli

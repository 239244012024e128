#include "job/failure_report.h"

#include <signal.h>
#include <string.h>

#include <charconv>
#include <ctime>

#include <fmt/format.h>

namespace paceline::job {

namespace {

// The signal that ended the process, also where a shell or ssh has made an exit code of it.
int EffectiveSignal(const ExitState& state) {
  if (state.signal != 0) return state.signal;
  return state.code > 128 && state.code < 128 + NSIG ? state.code - 128 : 0;
}

std::string RenderTime(std::int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string RenderSignal(const RankFailure& failure) {
  const int signal = EffectiveSignal(failure.state);
  if (signal == 0) return "none";
  std::string text = fmt::format("{} ({})", signal, SignalName(signal));
  if (failure.out_of_memory) text += ", out of memory: the kernel killed it";
  return text;
}

std::string OrNothing(const std::string& text) { return text.empty() ? "(nothing)" : text; }

std::string RenderRootCause(const RankFailure& failure) {
  return fmt::format(
      "Root cause (first observed failure):\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local rank: {})\n"
      "  exit code : {} (pid: {})\n"
      "  signal    : {}\n"
      "  error     : {}\n",
      RenderTime(failure.unix_seconds), failure.host, failure.rank.value(), failure.local_rank,
      ShellExitCode(failure.state), failure.pid, RenderSignal(failure),
      OrNothing(failure.error_line));
}

std::string RenderOther(const RankFailure& failure) {
  const int signal = EffectiveSignal(failure.state);
  return fmt::format("  rank {} on {}, exit code {}{}: {}\n", failure.rank.value(), failure.host,
                     ShellExitCode(failure.state),
                     signal == 0 ? "" : fmt::format(" ({})", SignalName(signal)),
                     OrNothing(failure.error_line));
}

}  // namespace

std::optional<Rank> LostRank(std::string_view error_line) {
  constexpr std::string_view kWord = "rank ";
  if (error_line.find("lost") == std::string_view::npos) return std::nullopt;
  const std::size_t at = error_line.find(kWord);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = error_line.substr(at + kWord.size());
  std::uint64_t rank = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (parsed.ec != std::errc()) return std::nullopt;
  return Rank(rank);
}

FailureKind Classify(const RankFailure& failure) {
  const int signal = EffectiveSignal(failure.state);
  if (failure.killed && signal == SIGKILL) return FailureKind::kStopped;
  if (failure.asked_to_stop && (signal == SIGTERM || signal == SIGINT)) {
    return FailureKind::kStopped;
  }
  if (failure.state.code == ExitCode(Code::kPeerLost)) return FailureKind::kConsequence;
  const auto lost = LostRank(failure.error_line);
  if (signal == 0 && lost && *lost != failure.rank) return FailureKind::kConsequence;
  return FailureKind::kOwn;
}

std::size_t FindRootCause(std::span<const RankFailure> failures) {
  PACELINE_CHECK(!failures.empty(), "a cause needs a failure");
  std::size_t best = 0;
  for (std::size_t i = 1; i < failures.size(); ++i) {
    if (Classify(failures[i]) < Classify(failures[best])) best = i;
  }
  return best;
}

int ShellExitCode(const ExitState& state) {
  return state.signal != 0 ? 128 + state.signal : state.code;
}

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : std::string("SIG") + name;
}

std::string RenderFailures(std::string_view program, std::span<const RankFailure> failures) {
  const std::size_t root = FindRootCause(failures);
  const std::string thick(72, '='), thin(72, '-');
  std::string text =
      fmt::format("{}\n{} FAILED\n{}\n{}", thick, program, thin, RenderRootCause(failures[root]));
  std::string others;
  std::size_t stopped = 0;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (i == root) continue;
    if (Classify(failures[i]) == FailureKind::kStopped) {
      ++stopped;
    } else {
      others += RenderOther(failures[i]);
    }
  }
  if (!others.empty()) text += fmt::format("{}\nOther failures:\n{}", thin, others);
  if (stopped > 0) {
    text += fmt::format("{}\n{} other rank{} stopped by the launcher\n", thin, stopped,
                        stopped == 1 ? " was" : "s were");
  }
  return text + thick + "\n";
}

}  // namespace paceline::job

#include "bench/perf_group.h"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "bench/json_reader.h"

namespace paceline::bench {

namespace {

constexpr int kExitNotAvailable = 3;      // the protocol's code
constexpr int kExitProgramMissing = 127;  // the shell's code
constexpr std::chrono::milliseconds kLookAtRanks{50};
constexpr std::chrono::milliseconds kGrace{3'000};  // mpirun removes its files when it may

// The output goes to a file, since nobody reads a pipe meanwhile. SIGINT is left to the driver:
// Ctrl-C must end as "stopped", not as a crashed rank.
std::vector<std::string> ThroughShell(const PerfProcess& process) {
  std::vector<std::string> argv{"/bin/sh", "-c", "trap '' INT; exec \"$@\" >\"$0\" 2>&1",
                                process.log.string()};
  argv.insert(argv.end(), process.argv.begin(), process.argv.end());
  return argv;
}

Status Stopped(const std::string& engine) {
  return Status::Error(Code::kAborted, fmt::format("{}: stopped", engine));
}

}  // namespace

Result<PerfGroup> PerfGroup::Start(const PerfGroupOptions& options, std::stop_token stop) {
  PACELINE_ASSIGN(PerfListener listener, PerfListener::Open(options.control));
  PerfGroup group(options);
  PACELINE_TRY(group.StartProcesses());
  PACELINE_TRY(group.AcceptRanks(listener, stop));
  return group;
}

PerfGroup::~PerfGroup() {
  if (processes_.empty()) return;
  Interrupt();
  for (Subprocess& process : processes_) static_cast<void>(process.Wait(kGrace));
}

// Ranks leave when their channel closes, also out of the middle of an operation.
void PerfGroup::Interrupt() {
  for (const PerfChannel& channel : channels_) {
    if (channel.fd() >= 0) ::shutdown(channel.fd(), SHUT_RDWR);
  }
  for (const Subprocess& process : processes_) process.Signal(SIGTERM);
}

Status PerfGroup::StartProcesses() {
  for (const PerfProcess& process : options_.processes) {
    auto environment = process.environment;
    environment["PACELINE_PERF_CONTROL"] = options_.control.string();
    PACELINE_ASSIGN(Subprocess child, Subprocess::Start({.argv = ThroughShell(process),
                                                         .environment = environment,
                                                         .cpus = process.cpus,
                                                         .pipe_stdout = false}));
    processes_.push_back(std::move(child));
  }
  for (int rank = 0; rank < options_.workers; ++rank) channels_.emplace_back(UniqueFd());
  return {};
}

Status PerfGroup::AcceptRanks(PerfListener& listener, const std::stop_token& stop) {
  const Instant deadline = SystemClock().Now() + options_.ready_timeout;
  while (admitted_ < options_.workers) {
    if (stop.stop_requested()) return Stopped(options_.engine);
    auto channel = listener.Accept(kLookAtRanks);
    if (channel.ok()) {
      PACELINE_TRY(Admit(std::move(*channel)));
      continue;
    }
    PACELINE_TRY(CheckAlive());
    if (SystemClock().Now() >= deadline) return Explain("starting", channel.status());
  }
  return {};
}

// An exit before all ranks are there is the cause, whatever the others say.
Status PerfGroup::CheckAlive() {
  for (Subprocess& process : processes_) {
    const auto state = process.Wait(std::chrono::milliseconds(0));
    if (!state.ok()) continue;
    const bool absent = state->code == kExitNotAvailable || state->code == kExitProgramMissing;
    if (absent) {
      return Status::Error(Code::kUnavailable, fmt::format("{}{}", options_.engine, LastWords()));
    }
    return Status::Error(Code::kPeerLost, fmt::format("{}: {} while starting{}", options_.engine,
                                                      state->Describe(), LastWords()));
  }
  return {};
}

Status PerfGroup::Admit(PerfChannel channel) {
  auto line = channel.ReadLine(options_.ready_timeout);
  if (!line.ok()) return Explain("starting", line.status());
  PACELINE_ASSIGN(JsonReader json, JsonReader::Parse(*line));
  const bool ready = json.Flag("ready");
  const std::string engine = json.Text("engine");
  version_ = json.Text("version");
  const std::int64_t rank = json.Integer("rank");
  const std::int64_t world = json.Integer("world");
  PACELINE_TRY(json.status().Wrap(options_.engine));
  if (!ready || engine != options_.engine || world != options_.workers || rank < 0 ||
      rank >= world || channels_[static_cast<std::size_t>(rank)].fd() >= 0) {
    return Status::Error(Code::kProtocol,
                         fmt::format("{}: is not what was started: {}", options_.engine, *line));
  }
  channels_[static_cast<std::size_t>(rank)] = std::move(channel);
  ++admitted_;
  return {};
}

Result<std::vector<std::string>> PerfGroup::AskAll(const std::string& command,
                                                   std::chrono::milliseconds timeout,
                                                   const std::stop_token& stop) {
  const Instant deadline = SystemClock().Now() + timeout;
  std::vector<std::string> answers;
  Status failure;
  {
    const std::stop_callback interrupt(stop, [this] { Interrupt(); });
    for (PerfChannel& channel : channels_) {
      if (failure.ok()) failure = channel.WriteLine(command);
    }
    for (PerfChannel& channel : channels_) {
      if (!failure.ok()) break;
      const auto left = std::max(
          std::chrono::milliseconds(0),
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SystemClock().Now()));
      auto line = channel.ReadLine(left);
      failure = line.status();
      if (line.ok()) answers.push_back(*line);
    }
  }
  if (stop.stop_requested()) return Stopped(options_.engine);
  if (!failure.ok()) return Explain(command, failure);
  return answers;
}

Result<std::vector<PerfSample>> PerfGroup::Run(const PerfStep& step, std::stop_token stop) {
  const std::string command = ToCommand(step);
  PACELINE_ASSIGN(const std::vector<std::string> answers,
                  AskAll(command, options_.run_timeout, stop));
  std::vector<PerfSample> samples;
  for (const std::string& answer : answers) {
    auto sample = SampleFromJson(answer);
    if (!sample.ok()) {
      return Explain(command, Status::Error(Code::kPeerLost, answer.substr(0, 300)));
    }
    samples.push_back(*sample);
  }
  return samples;
}

Result<std::int64_t> PerfGroup::Quit(std::stop_token stop) {
  PACELINE_ASSIGN(const std::vector<std::string> answers,
                  AskAll("quit", options_.quit_timeout, stop));
  std::int64_t largest = 0;
  for (const std::string& answer : answers) {
    PACELINE_ASSIGN(JsonReader json, JsonReader::Parse(answer));
    largest = std::max(largest, json.Integer("max_rss_bytes"));
    PACELINE_TRY(json.status().Wrap(options_.engine));
  }
  for (Subprocess& process : processes_) {
    auto state = process.Wait(options_.quit_timeout);
    if (!state.ok()) return Explain("quit", state.status());
    if (!state->Success()) {
      return Explain("quit", Status::Error(Code::kPeerLost, state->Describe()));
    }
  }
  processes_.clear();
  return largest;
}

Status PerfGroup::Explain(const std::string& doing, const Status& cause) {
  return Status::Error(cause.code(), fmt::format("{}: {}: {}{}", options_.engine, doing,
                                                 cause.message(), LastWords()));
}

std::string PerfGroup::LastWords() const {
  constexpr std::size_t kLines = 4;
  constexpr std::size_t kLineBytes = 300;
  std::deque<std::string> lines;
  for (const PerfProcess& process : options_.processes) {
    std::ifstream file(process.log);
    for (std::string line; std::getline(file, line);) {
      if (line.find_first_not_of(" -\t") == std::string::npos) continue;
      line = line.substr(0, kLineBytes);
      if (std::count(lines.begin(), lines.end(), line) > 0) continue;  // all ranks say the same
      lines.push_back(line);
      if (lines.size() > kLines) lines.pop_front();
    }
  }
  return lines.empty() ? "" : fmt::format(": {}", fmt::join(lines, " | "));
}

}  // namespace paceline::bench

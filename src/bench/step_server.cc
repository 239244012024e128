#include "bench/step_server.h"

#include <signal.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/json_reader.h"

namespace paceline::bench {

namespace {

constexpr int kExitNotInstalled = 3;     // the protocol's code
constexpr int kExitNoSuchProgram = 127;  // the shell's code
constexpr std::chrono::milliseconds kReapTimeout{5'000};

// stderr goes to a file, because nobody reads a pipe while a step runs and a chatty system would
// block. SIGINT is left to the harness: Ctrl-C must end as "stopped", not as a crashed peer.
std::vector<std::string> ThroughShell(const StepServerOptions& options) {
  std::vector<std::string> argv{"/bin/sh", "-c", "trap '' INT; exec \"$@\" 2>\"$0\"",
                                options.stderr_path.string()};
  argv.insert(argv.end(), options.argv.begin(), options.argv.end());
  return argv;
}

Status WrongAnswer(const std::string& name, const std::string& what, const std::string& line) {
  return Status::Error(Code::kProtocol, fmt::format("{}: {}: {}", name, what, line.substr(0, 200)));
}

}  // namespace

void AddTask(const StepTask& task, StepServerOptions* server) {
  const std::string threads = std::to_string(task.threads);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    server->environment[name] = threads;
  }
  for (const std::string& argument :
       {std::string("--model"), task.model, std::string("--batch"), std::to_string(task.batch),
        std::string("--threads"), threads}) {
    server->argv.push_back(argument);
  }
}

Status CheckTask(const StepTask& task, const ServerInfo& info) {
  struct Field {
    const char* name;
    std::int64_t expected, actual;
  };
  const Field fields[] = {{"parameters", task.params, info.params},
                          {"parameter tensors", task.tensors, info.tensors},
                          {"samples per batch", task.batch, info.batch},
                          {"threads", task.threads, info.threads}};
  for (const Field& field : fields) {
    if (field.expected != 0 && field.actual != field.expected) {
      return Status::Error(Code::kMismatch, fmt::format("{}: has {} {}, expected {}", info.system,
                                                        field.actual, field.name, field.expected));
    }
  }
  if (info.model != task.model) {
    return Status::Error(Code::kMismatch, fmt::format("{}: trains {}, expected {}", info.system,
                                                      info.model, task.model));
  }
  return {};
}

Result<StepServer> StepServer::Start(const StepServerOptions& options, std::stop_token stop) {
  PACELINE_ASSIGN(StepServer server, Launch(options));
  PACELINE_TRY(server.FinishLaunch(std::move(stop)));
  return server;
}

Result<StepServer> StepServer::Launch(const StepServerOptions& options) {
  PACELINE_ASSIGN(Subprocess process, Subprocess::Start({.argv = ThroughShell(options),
                                                         .environment = options.environment,
                                                         .cpus = options.cpus,
                                                         .pipe_stdin = true}));
  return StepServer(options, std::move(process));
}

Status StepServer::FinishLaunch(std::stop_token stop) {
  constexpr char kDoing[] = "waiting for \"ready\"";
  PACELINE_ASSIGN(const std::string line, Read(kDoing, options_.ready_timeout, std::move(stop)));
  auto parsed = JsonReader::Parse(line);
  if (!parsed.ok()) return Explain(parsed.status(), kDoing);
  JsonReader& json = *parsed;
  const bool ready = json.Flag("ready");
  info_ = {.system = json.Text("system"),
           .version = json.Text("version"),
           .model = json.Text("model"),
           .params = json.Integer("params"),
           .tensors = json.Integer("tensors"),
           .batch = json.Integer("batch"),
           .threads = json.Integer("threads")};
  if (!json.status().ok()) return Explain(json.status(), kDoing);
  if (!ready || info_.system.empty()) return WrongAnswer(options_.name, "is not ready", line);
  options_.name = info_.system;
  return {};
}

Result<StepTiming> StepServer::Run(int steps, std::stop_token stop) {
  BeginRun(steps);
  return FinishRun(steps, std::move(stop));
}

// A process that reads no more has ended, and the answer that does not come says how.
void StepServer::BeginRun(int steps) {
  static_cast<void>(process_.WriteLine(fmt::format("run {}", steps)));
}

Result<StepTiming> StepServer::FinishRun(int steps, std::stop_token stop) {
  const std::string command = fmt::format("run {}", steps);
  PACELINE_ASSIGN(const std::string line, Read(command, options_.run_timeout, std::move(stop)));
  auto parsed = JsonReader::Parse(line);
  if (!parsed.ok()) return Explain(parsed.status(), command);
  const StepTiming timing{.seconds = parsed->Number("seconds"),
                          .samples = parsed->Integer("samples"),
                          .loss = parsed->OptionalNumber("loss"),
                          .step_seconds = parsed->OptionalNumbers("step_seconds")};
  if (!parsed->status().ok()) return Explain(parsed->status(), command);
  if (timing.seconds <= 0) return WrongAnswer(options_.name, "a step takes time", line);
  if (timing.samples != steps * info_.batch) {
    return WrongAnswer(options_.name,
                       fmt::format("{} steps of {} samples were asked for", steps, info_.batch),
                       line);
  }
  if (!timing.step_seconds.empty() &&
      timing.step_seconds.size() != static_cast<std::size_t>(steps)) {
    return WrongAnswer(options_.name, fmt::format("has not the times of {} steps", steps), line);
  }
  return timing;
}

Result<std::int64_t> StepServer::Quit(std::stop_token stop) {
  BeginQuit();
  return FinishQuit(std::move(stop));
}

void StepServer::BeginQuit() { static_cast<void>(process_.WriteLine("quit")); }

Result<std::int64_t> StepServer::FinishQuit(std::stop_token stop) {
  PACELINE_ASSIGN(const std::string line, Read("quit", options_.quit_timeout, std::move(stop)));
  auto parsed = JsonReader::Parse(line);
  if (!parsed.ok()) return Explain(parsed.status(), "quit");
  const std::int64_t reported = parsed->Integer("max_rss_bytes");
  if (!parsed->status().ok()) return Explain(parsed->status(), "quit");
  process_.CloseStdin();
  auto state = process_.Wait(options_.quit_timeout);
  if (!state.ok()) return Explain(state.status(), "quit");
  if (!state->Success()) {
    return Status::Error(Code::kPeerLost, fmt::format("{}: {} after quit{}", options_.name,
                                                      state->Describe(), LastWords()));
  }
  // The kernel's figure keeps a system from understating its own.
  return std::max(reported, state->max_rss_bytes);
}

Result<std::string> StepServer::Read(const std::string& doing, std::chrono::milliseconds timeout,
                                     std::stop_token stop) {
  Result<std::string> line = Status::Error(Code::kAborted, "stopped");
  {
    // Killing the process ends the read below at once, which needs no polling.
    const std::stop_callback kill(stop, [this] { process_.Signal(SIGKILL); });
    line = process_.ReadLine(timeout);
  }
  if (stop.stop_requested()) {
    return Status::Error(Code::kAborted, fmt::format("{}: stopped", options_.name));
  }
  if (!line.ok()) return Explain(line.status(), doing);
  return line;
}

Status StepServer::Explain(const Status& cause, const std::string& doing) {
  if (cause.code() == Code::kTimeout) {
    process_.Signal(SIGKILL);
    return Status::Error(Code::kTimeout, fmt::format("{}: no answer in time while {}{}",
                                                     options_.name, doing, LastWords()));
  }
  if (cause.code() != Code::kNotFound) {  // it lives but talks nonsense
    return Status::Error(cause.code(), fmt::format("{}: {}: {}{}", options_.name, doing,
                                                   cause.message(), LastWords()));
  }
  const auto state = process_.Wait(kReapTimeout);
  const bool starting = info_.system.empty();
  if (starting && state.ok() &&
      (state->code == kExitNotInstalled || state->code == kExitNoSuchProgram)) {
    return Status::Error(Code::kUnavailable, fmt::format("{}{}", options_.name, LastWords()));
  }
  return Status::Error(
      Code::kPeerLost,
      fmt::format("{}: {} while {}{}", options_.name,
                  state.ok() ? state->Describe() : "closed its output", doing, LastWords()));
}

std::string StepServer::LastWords() const {
  constexpr std::size_t kLines = 4;
  constexpr std::size_t kLineBytes = 300;
  std::ifstream file(options_.stderr_path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    lines.push_back(line.substr(0, kLineBytes));
    if (lines.size() > kLines) lines.pop_front();
  }
  return lines.empty() ? "" : fmt::format(": {}", fmt::join(lines, " | "));
}

}  // namespace paceline::bench

// paceline: everything without torch. Starts in milliseconds; `train` hands over to
// paceline-worker.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "paceline/commands.h"

namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::vector<std::string>& arguments);
};

constexpr Command kCommands[] = {
    {"train", "Train a model", paceline::cli::RunTrain},
    {"launch", "Train on several hosts", paceline::cli::RunLaunch},
    {"status", "Show where a run stands", paceline::cli::RunStatus},
    {"top", "Watch a run", paceline::cli::RunTop},
    {"audit", "Prove that a run used every sample once, or compare two", paceline::cli::RunAudit},
    {"export", "Write a run's tables and dense tensors for other programs",
     paceline::cli::RunExport},
    {"coordinator", "Coordinate an elastic run whose workers something else starts",
     paceline::cli::RunCoordinator},
    {"server", "Keep parameters for trainers that something else starts", paceline::cli::RunServer},
    {"bench", "Measure against peers and write a report", paceline::cli::RunBench},
    {"perf", "Time collective operations of all engines, or parameter servers",
     paceline::cli::RunPerf},
    {"models", "List the models, or show one", paceline::cli::RunModels},
    {"doctor", "Check this machine and say what to do", paceline::cli::RunDoctor},
    {"version", "Show the version", paceline::cli::RunVersion},
};

void PrintHelp(std::FILE* to) {
  fmt::print(to,
             "Paceline trains neural networks and measures itself.\n\n"
             "Usage: paceline COMMAND [ARGUMENTS]\n\nCommands:\n");
  for (const Command& command : kCommands) {
    fmt::print(to, "  {:<12} {}\n", command.name, command.summary);
  }
  fmt::print(to,
             "\n`paceline COMMAND --help` shows the flags of a command.\n"
             "GLOG_logtostderr=1 and GLOG_v=N print what happens in detail.\n");
}

}  // namespace

int main(int argc, char** argv) {
  paceline::SetLogOptions(
      paceline::LogOptionsFromEnvironment([](const char* name) { return std::getenv(name); }));
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    PrintHelp(stderr);
    return 2;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    PrintHelp(stdout);
    return 0;
  }
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "--version") return paceline::cli::RunVersion({});
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(rest);
  }
  fmt::print(stderr, "paceline: error: unknown command '{}'; see `paceline --help`\n", name);
  return 2;
}

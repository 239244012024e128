#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/train_flags.h"
#include "job/host_list.h"
#include "job/launch_environment.h"
#include "job/launch_plan.h"
#include "job/launcher.h"
#include "job/run_dir.h"
#include "job/stop_signal.h"
#include "job/worker_environment.h"
#include "member/rendezvous.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/secret.h"
#include "paceline/commands.h"
#include "paceline/server_launch.h"

namespace paceline::cli {

namespace {

constexpr char kLaunchCommand[] = "paceline launch";

struct LaunchArguments {
  std::string host_file;
  std::string hosts;
  std::string ssh = "ssh";
  std::string directory;
  std::string worker_program;
  std::string bind;
  std::uint16_t server_port = 7164;  // where Paddle's servers listen by default
  std::vector<std::string> exported;
  bool dry_run = false;
  bool has_training = false;          // a "--" was there
  std::vector<std::string> training;  // what `paceline train` takes
};

// CLI11 does not know that a second command line follows.
class LaunchHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return fmt::format("Usage: {} [OPTIONS] -- [train] MODEL FLAGS\n", name);
  }
};

void AddFlags(CLI::App& app, LaunchArguments& arguments) {
  app.formatter(std::make_shared<LaunchHelp>());
  const auto file = app.add_option("--hosts", arguments.host_file,
                                   "File with one host a line: node1, node2 slots=4 or me@node3:2");
  app.add_option("--host", arguments.hosts, "The same in the command line: node1:4,node2:4")
      ->excludes(file);
  app.add_option("--ssh", arguments.ssh, "How to reach hosts: program and options, split at blanks")
      ->capture_default_str();
  app.add_option("--directory", arguments.directory,
                 "Where the workers run, on every host (default: the current directory)");
  app.add_option("--worker-program", arguments.worker_program,
                 "paceline-worker on every host (default: the one next to this program)");
  app.add_option("--bind", arguments.bind,
                 "Address of this machine that the hosts reach (default: by the route to them)");
  app.add_option("--server-port", arguments.server_port,
                 "With --strategy ps: port of the first server of a host; the next has the next")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_option("--export", arguments.exported,
                 "Variable that workers on other hosts get too; can be repeated")
      ->option_text("NAME ...")
      ->allow_extra_args(false);
  app.add_flag("--dry-run", arguments.dry_run, "Print the command lines and start nothing");
  app.footer(
      "Without --hosts and --host the hosts are those of the Slurm or PBS allocation. Each gets "
      "as\n"
      "many workers as it has slots. This machine's own workers start without ssh; the others "
      "need\n"
      "ssh without a password, a POSIX login shell, and the same paths. The secret of the job "
      "goes\n"
      "through stdin, never through a command line. Ctrl-C saves and ends all workers.\n\n"
      "  paceline launch --host node1:2,node2:2 -- train vgg16 --epochs 2\n\n"
      "Exit codes: those of `paceline train`; 255: ssh failed. docs/launching.md explains more.");
}

std::string ThisHost() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

struct Hosts {
  std::vector<job::HostSlots> list;
  std::string allocation;  // whose: "Slurm", "PBS"; empty: the user named them
};

Result<Hosts> FindHosts(const LaunchArguments& arguments) {
  Hosts hosts;
  if (!arguments.host_file.empty()) {
    PACELINE_ASSIGN(hosts.list, job::ReadHostFile(arguments.host_file));
  } else if (!arguments.hosts.empty()) {
    PACELINE_ASSIGN(hosts.list, job::ParseHostArgument(arguments.hosts));
  } else {
    PACELINE_ASSIGN(auto allocation, job::HostsOfAllocation(::getenv));
    if (!allocation) {
      return WrongArguments(
          "which hosts? Give --hosts FILE or --host node1:2,node2:2; there is no Slurm or PBS "
          "allocation here");
    }
    hosts.list = std::move(*allocation);
    hosts.allocation = IsSet("SLURM_JOB_NODELIST") ? "Slurm" : "PBS";
  }
  hosts.list = job::MergeThisHost(hosts.list, ThisHost());
  return hosts;
}

// What cannot be on several hosts, or is said twice.
Status FitToHosts(job::TrainConfig& config, const std::vector<job::HostSlots>& hosts) {
  const auto world = static_cast<std::int64_t>(job::CountSlots(hosts));
  if (config.workers > 1 && config.workers != world) {
    return WrongArguments(fmt::format(
        "--workers {}, but the hosts have {} slots; leave --workers out", config.workers, world));
  }
  config.workers = world;
  if (config.engine == "mpi") {
    return WrongArguments("--engine mpi needs mpirun: `mpirun ... paceline train --engine mpi`");
  }
  if (!config.bind.empty() && hosts.size() > 1) {
    return WrongArguments(
        "the training's --bind would be the same address on all hosts; leave it out");
  }
  return {};
}

// Where hosts can reach this machine.
Result<std::string> MeetingAddress(const LaunchArguments& arguments,
                                   const std::vector<job::HostSlots>& hosts) {
  if (arguments.bind == "0.0.0.0" || arguments.bind == "::") {
    return WrongArguments("--bind " + arguments.bind +
                          ": the hosts need one address to connect to");
  }
  if (!arguments.bind.empty()) return arguments.bind;
  const std::string me = ThisHost();
  std::string address = "127.0.0.1";
  for (const job::HostSlots& host : hosts) {
    const std::string name = job::HostOnly(host.host);
    if (job::IsThisHost(host.host, me) || net::IsLoopback(name)) continue;
    address = net::AddressTowards({name, 22});
    if (!net::IsLoopback(address)) return address;
    return WrongArguments(fmt::format(
        "no route to host '{}' by that name; --bind ADDRESS says where it can reach this machine",
        name));
  }
  return address;
}

Result<std::map<std::string, std::string>> RemoteEnvironment(
    const std::vector<std::string>& names) {
  std::map<std::string, std::string> exported;
  for (const std::string& name : names) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr)
      return WrongArguments(fmt::format("--export {}: it is not set here", name));
    if (name.starts_with("PACELINE_SECRET")) {
      return WrongArguments(
          fmt::format("--export {}: the secret must not be on a command line", name));
    }
    exported[name] = value;
  }
  const auto get = [&](const char* name) {
    const auto found = exported.find(name);
    return found == exported.end() ? nullptr : found->second.c_str();
  };
  auto environment = job::WorkerEnvironment(get, job::WorkerHost::kOther);
  environment.merge(exported);
  return environment;
}

Result<job::LaunchPlan> MakePlan(const LaunchArguments& arguments, const job::TrainConfig& config,
                                 const std::vector<job::HostSlots>& hosts) {
  job::LaunchPlan plan{.hosts = hosts, .this_host = ThisHost(), .ssh = arguments.ssh};
  std::error_code error;
  plan.directory =
      std::filesystem::absolute(arguments.directory.empty() ? "." : arguments.directory, error)
          .lexically_normal();
  if (error) return WrongArguments("--directory: " + error.message());
  const char* program = config.Fused() ? "/paceline" : "/paceline-worker";
  plan.worker = {
      arguments.worker_program.empty() ? ExecutableDirectory() + program : arguments.worker_program,
      "train"};
  plan.worker.insert(plan.worker.end(), arguments.training.begin(), arguments.training.end());
  plan.local_environment = job::WorkerEnvironment(::getenv);
  PACELINE_ASSIGN(plan.remote_environment, RemoteEnvironment(arguments.exported));
  return plan;
}

Result<int> PrintPlan(job::LaunchPlan plan, const std::string& address) {
  plan.coordinator = net::Endpoint{address, 0}.ToString();
  plan.coordinator.replace(plan.coordinator.size() - 1, 1, "PORT");  // known when it listens
  PACELINE_ASSIGN(const auto children, job::PlanLaunch(plan));
  for (const job::ChildSpec& child : children) fmt::print("{}\n", job::RenderCommand(child));
  return 0;
}

Result<int> RunPlan(job::LaunchPlan plan, const std::string& address) {
  const job::StopSignals blocked;  // only the launcher's main thread takes them
  net::Loop loop;
  PACELINE_ASSIGN(const net::Secret secret, net::Secret::Generate());
  auto rendezvous = member::RendezvousServer::Start(
      loop, {.bind = {address, 0}, .secret = secret, .world = job::CountSlots(plan.hosts)});
  if (!rendezvous.ok()) return rendezvous.status().Wrap("waiting for workers at " + address);
  plan.coordinator = (*rendezvous)->endpoint().ToString();
  plan.secret = secret.ToHex();
  PACELINE_ASSIGN(std::vector<job::ChildSpec> children, job::PlanLaunch(plan));
  // The progress line of a worker behind ssh is made of whole lines anyway.
  const bool terminal = !children.front().stop_with_stdin && ::isatty(2) == 1;
  return job::RunLauncher({.program = kLaunchCommand, .inherit_first_stderr = terminal},
                          std::move(children));
}

Result<int> Launch(LaunchArguments arguments) {
  PACELINE_ASSIGN(TrainRequest request, ParseTrainArguments(arguments.training));
  if (request.help) {
    fmt::print("{}", request.help_text);
    return 0;
  }
  PACELINE_ASSIGN(const auto launched, job::RecognizeLaunch(::getenv));
  if (launched && launched->world > 1) {
    return WrongArguments(fmt::format("{} started {} of these already; it takes `paceline train`",
                                      launched->source, launched->world));
  }
  PACELINE_ASSIGN(const Hosts hosts, FindHosts(arguments));
  PACELINE_TRY(FitToHosts(request.config, hosts.list));
  PACELINE_TRY(CheckTraining(request.config));
  if (request.config.run.empty()) {
    request.config.run = job::DefaultRunPath(request.config.model, SystemClock().UnixSeconds(),
                                             static_cast<int>(::getpid()));
    arguments.training.insert(arguments.training.end(), {"--run", request.config.run});
  }
  PACELINE_ASSIGN(const job::LaunchPlan plan, MakePlan(arguments, request.config, hosts.list));
  PACELINE_ASSIGN(const std::string address, MeetingAddress(arguments, hosts.list));
  if (!hosts.allocation.empty() && !request.config.quiet) {
    fmt::print(stderr, "{} allocation: {} workers on {} host{}, first {}\n", hosts.allocation,
               request.config.workers, hosts.list.size(), hosts.list.size() == 1 ? "" : "s",
               hosts.list.front().host);
  }
  if (request.config.UsesServers()) {
    return LaunchWithServersOnHosts(request.config, plan,
                                    {.address = address,
                                     .port = arguments.server_port,
                                     .dry_run = arguments.dry_run,
                                     .program_name = kLaunchCommand});
  }
  return arguments.dry_run ? PrintPlan(plan, address) : RunPlan(plan, address);
}

// Flags of our own stand before "--", the training behind it.
std::vector<std::string> TakeTraining(const std::vector<std::string>& raw,
                                      LaunchArguments& arguments) {
  const auto dashes = std::find(raw.begin(), raw.end(), "--");
  arguments.has_training = dashes != raw.end();
  if (arguments.has_training) {
    auto first = dashes + 1;
    if (first != raw.end() && *first == "train") ++first;
    arguments.training.assign(first, raw.end());
  }
  return {raw.begin(), dashes};
}

}  // namespace

int RunLaunch(const std::vector<std::string>& raw) {
  CLI::App app(
      "Train on several hosts: start their workers with ssh, show what they say, and end all of "
      "them together.",
      kLaunchCommand);
  LaunchArguments arguments;
  const std::vector<std::string> own = TakeTraining(raw, arguments);
  AddFlags(app, arguments);
  if (const auto exit = ParseArguments(app, own)) return *exit;
  if (!arguments.has_training) {
    return Fail(kLaunchCommand,
                WrongArguments("which training? Write it behind --: `paceline launch --host "
                               "node1:2,node2:2 -- train MODEL`"));
  }
  const auto code = Launch(arguments);
  return code.ok() ? *code : Fail(kLaunchCommand, code.status());
}

}  // namespace paceline::cli

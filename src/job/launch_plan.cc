#include "job/launch_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "job/endpoint.h"
#include "job/launch_environment.h"
#include "job/ssh_command.h"

namespace paceline::job {

namespace {

// What we say about a worker's place wins over what was in the environment before.
std::map<std::string, std::string> Variables(const LaunchPlan& plan,
                                             const LaunchEnvironment& place) {
  std::map<std::string, std::string> variables = ToVariables(place);
  if (plan.servers.empty()) variables["PACELINE_COORDINATOR_RUNS"] = "yes";
  return variables;
}

// `child` has its label and rank; this says what runs, and how it gets there.
Result<ChildSpec> PlanOnHost(const LaunchPlan& plan, const std::string& host, ChildSpec child,
                             std::vector<std::string> argv,
                             std::map<std::string, std::string> variables) {
  child.host = HostOnly(host);
  child.stdin_line = plan.secret;
  const bool local = IsThisHost(host, plan.this_host);
  variables.merge(std::map(local ? plan.local_environment : plan.remote_environment));
  if (local) {
    child.argv = std::move(argv);
    child.environment = std::move(variables);
    child.environment["PACELINE_SECRET_STDIN"] = "1";
    child.directory = plan.directory;
    return child;
  }
  child.stop_with_stdin = true;
  PACELINE_ASSIGN(child.argv, BuildSshCommand({.ssh = plan.ssh,
                                               .host = host,
                                               .directory = plan.directory,
                                               .argv = std::move(argv),
                                               .environment = std::move(variables),
                                               .secret_on_stdin = true,
                                               .grace = plan.grace}));
  return child;
}

Result<ChildSpec> PlanChild(const LaunchPlan& plan, const std::string& host,
                            const LaunchEnvironment& place) {
  ChildSpec child{.label = fmt::format("{}{}@{}", plan.servers.empty() ? "w" : "trainer ",
                                       place.rank.value(), HostOnly(host)),
                  .rank = place.rank,
                  .local_rank = place.local_rank.value_or(0)};
  return PlanOnHost(plan, host, std::move(child), plan.worker, Variables(plan, place));
}

}  // namespace

bool IsThisHost(std::string_view host, std::string_view this_host) {
  if (host == "localhost" || host == "127.0.0.1" || host == this_host) return true;
  // One of them may be the short form of the other.
  const bool one_is_short =
      host.find('.') == std::string_view::npos || this_host.find('.') == std::string_view::npos;
  const std::string_view name = host.substr(0, host.find('.'));
  return one_is_short && !name.empty() && name == this_host.substr(0, this_host.find('.'));
}

std::vector<HostSlots> MergeThisHost(const std::vector<HostSlots>& hosts,
                                     std::string_view this_host) {
  std::vector<HostSlots> merged;
  for (const HostSlots& entry : hosts) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const HostSlots& other) {
      return IsThisHost(entry.host, this_host) && IsThisHost(other.host, this_host);
    });
    if (same == merged.end()) {
      merged.push_back(entry);
    } else {
      same->slots += entry.slots;
    }
  }
  return merged;
}

std::uint64_t CountSlots(const std::vector<HostSlots>& hosts) {
  std::uint64_t slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

std::string HostOnly(const std::string& host) { return host.substr(host.find('@') + 1); }

Result<std::vector<ChildSpec>> PlanLaunch(const LaunchPlan& plan) {
  const std::vector<HostSlots> hosts = MergeThisHost(plan.hosts, plan.this_host);
  const std::uint64_t world = CountSlots(hosts);
  std::vector<ChildSpec> children;
  children.reserve(world);
  for (const HostSlots& host : hosts) {
    for (std::uint64_t local = 0; local < host.slots; ++local) {
      const LaunchEnvironment place{.source = "paceline",
                                    .rank = Rank(children.size()),
                                    .world = world,
                                    .local_rank = local,
                                    .local_world = host.slots,
                                    .coordinator = plan.coordinator,
                                    .servers = plan.servers};
      PACELINE_ASSIGN(ChildSpec child, PlanChild(plan, host.host, place));
      children.push_back(std::move(child));
    }
  }
  return children;
}

Result<std::vector<ServerPlace>> PlaceServers(const std::vector<HostSlots>& hosts,
                                              std::string_view this_host,
                                              const std::string& address, std::uint64_t servers,
                                              std::uint16_t port) {
  std::vector<ServerPlace> places;
  places.reserve(servers);
  for (std::uint64_t i = 0; i < servers; ++i) {
    const std::string& host = hosts[i % hosts.size()].host;
    const std::uint64_t own_port = port + i / hosts.size();
    if (own_port > 65535) {
      return Status::Error(
          Code::kInvalidArgument,
          fmt::format("--server-port {}: there is no port for server {}", port, i));
    }
    const auto number = static_cast<std::uint16_t>(own_port);
    const std::string name = IsThisHost(host, this_host) ? address : HostOnly(host);
    const bool loopback = address == "127.0.0.1";
    places.push_back({.host = host,
                      .endpoint = Endpoint{name, number}.ToString(),
                      .bind = Endpoint{loopback ? address : "0.0.0.0", number}.ToString()});
  }
  return places;
}

Result<ChildSpec> PlanServer(const LaunchPlan& plan, const ServerPlace& place, std::uint64_t index,
                             Rank rank, std::vector<std::string> argv) {
  ChildSpec child{.label = fmt::format("server {}@{}", index, HostOnly(place.host)), .rank = rank};
  return PlanOnHost(plan, place.host, std::move(child), std::move(argv), {});
}

std::string RenderCommand(const ChildSpec& child) {
  std::vector<std::string> words;
  if (!child.environment.empty()) words.emplace_back("env");
  for (const auto& [name, value] : child.environment) words.push_back(name + "=" + value);
  words.insert(words.end(), child.argv.begin(), child.argv.end());
  const std::string line = ShellJoin(words);
  return child.directory.empty() ? line : "cd " + ShellQuote(child.directory) + " && " + line;
}

}  // namespace paceline::job

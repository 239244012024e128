#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/host_list.h"
#include "job/running_child.h"

namespace paceline::job {

// Workers on several hosts, as they are to be started.
struct LaunchPlan {
  std::vector<HostSlots> hosts;     // in the order of ranks
  std::string this_host;            // its workers are started without ssh
  std::string coordinator;          // "host:port", where the workers meet
  std::string secret;               // goes to every worker's stdin, and nowhere else
  std::string ssh = "ssh";          // the program and its options, split at blanks
  std::string directory;            // where the workers run; empty: wherever they end up
  std::vector<std::string> worker;  // command line of a worker, the same on all hosts
  std::map<std::string, std::string> local_environment;   // added on this host
  std::map<std::string, std::string> remote_environment;  // all that the others get
  std::chrono::seconds grace{30};  // for saving over there, between SIGTERM and SIGKILL
  std::vector<std::string>
      servers;  // "host:port" of parameter servers, which replace a coordinator
};

// A parameter server on one of the hosts.
struct ServerPlace {
  std::string host;      // as ssh takes it
  std::string endpoint;  // where trainers find it
  std::string bind;      // where it listens

  friend bool operator==(const ServerPlace&, const ServerPlace&) = default;
};

// Servers on the hosts in turn, from `port` on where a host gets several. This machine is found at
// `address`; while that is loopback, the servers listen there only.
Result<std::vector<ServerPlace>> PlaceServers(const std::vector<HostSlots>& hosts,
                                              std::string_view this_host,
                                              const std::string& address, std::uint64_t servers,
                                              std::uint16_t port);

// Whether `host`, as a host list has it, is the machine named `this_host`. With a user in front it
// is not: only ssh becomes somebody else.
bool IsThisHost(std::string_view host, std::string_view this_host);

// The hosts with all names of this machine as one entry, where the first of them stands: the
// workers of a machine share its cores, whatever it is called.
std::vector<HostSlots> MergeThisHost(const std::vector<HostSlots>& hosts,
                                     std::string_view this_host);

std::uint64_t CountSlots(const std::vector<HostSlots>& hosts);

// The host without a user: "node1" for "me@node1".
std::string HostOnly(const std::string& host);

// One child for each slot, by rank: ranks of one host are neighbours. Pure. kInvalidArgument for
// what ssh cannot take.
Result<std::vector<ChildSpec>> PlanLaunch(const LaunchPlan& plan);

// The child for server `index` at `place`; `rank` tells it from the trainers.
Result<ChildSpec> PlanServer(const LaunchPlan& plan, const ServerPlace& place, std::uint64_t index,
                             Rank rank, std::vector<std::string> argv);

// What a shell would have to run for that child, the secret left out.
std::string RenderCommand(const ChildSpec& child);

}  // namespace paceline::job

#include "job/host_list.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include <fmt/format.h>

#include "job/endpoint.h"
#include "job/launch_variables.h"
#include "job/slurm_list.h"

namespace paceline::job {

namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";
constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxShownOfLine = 80;  // of a wrong line in a message

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// "node1" or "user@node1".
bool IsSshHost(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return IsHostName(text);
  return IsHostName(text.substr(0, at)) && IsHostName(text.substr(at + 1));
}

Result<std::uint64_t> ParseSlots(std::string_view digits) {
  std::uint64_t slots = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || slots == 0 ||
      slots > kMaxSlots) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("slots '{}' are not from 1 to {}",
                                     digits.substr(0, kMaxShownOfLine), kMaxSlots));
  }
  return slots;
}

// "host", "host:4" or "host slots=4", without blanks around it.
Result<HostSlots> ParseHost(std::string_view text) {
  HostSlots entry;
  std::string_view host = text.substr(0, text.find_first_of(kBlank));
  std::string_view rest = Trim(text.substr(host.size()));
  if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    PACELINE_ASSIGN(entry.slots, ParseSlots(host.substr(colon + 1)));
    host = host.substr(0, colon);
  } else if (rest.starts_with("slots=")) {
    PACELINE_ASSIGN(entry.slots, ParseSlots(rest.substr(6)));
    rest = {};
  }
  if (!rest.empty()) {
    return Status::Error(Code::kInvalidArgument, fmt::format("'{}' after the host is not slots=N",
                                                             rest.substr(0, kMaxShownOfLine)));
  }
  if (!IsSshHost(host)) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("'{}' is no host name", host.substr(0, kMaxShownOfLine)));
  }
  entry.host = host;
  return entry;
}

// Hosts in the order of their first mention, slots added up.
class HostCollector {
 public:
  Status Add(const HostSlots& entry) {
    total_ += entry.slots;
    if (total_ > kMaxSlots) {
      return Status::Error(Code::kInvalidArgument, fmt::format("more than {} slots", kMaxSlots));
    }
    const auto [found, is_new] = places_.try_emplace(entry.host, hosts_.size());
    if (is_new) {
      hosts_.push_back(entry);
    } else {
      hosts_[found->second].slots += entry.slots;
    }
    return {};
  }
  std::vector<HostSlots> Take() { return std::move(hosts_); }

 private:
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, std::size_t> places_;
  std::uint64_t total_ = 0;
};

Result<std::vector<HostSlots>> HostsOfSlurm(const std::string& nodes,
                                            const std::optional<std::string>& tasks) {
  const auto hosts = ExpandNodeList(nodes);
  if (!hosts.ok()) return hosts.status().Wrap("SLURM_JOB_NODELIST");
  std::vector<std::uint64_t> slots(hosts->size(), 1);
  if (tasks) {
    auto expanded = ExpandTaskList(*tasks);
    if (!expanded.ok()) return expanded.status().Wrap("SLURM_TASKS_PER_NODE");
    if (expanded->size() != hosts->size()) {
      return Status::Error(
          Code::kInvalidArgument,
          fmt::format("SLURM_TASKS_PER_NODE={} has {} hosts, SLURM_JOB_NODELIST "
                      "has {}",
                      tasks->substr(0, kMaxShownOfLine), expanded->size(), hosts->size()));
    }
    slots = std::move(*expanded);
  }
  HostCollector collector;
  for (std::size_t i = 0; i < hosts->size(); ++i) {
    const Status added = collector.Add({(*hosts)[i], slots[i]});
    if (!added.ok()) return added.Wrap("SLURM_TASKS_PER_NODE");
  }
  return collector.Take();
}

}  // namespace

Result<std::vector<HostSlots>> ParseHostFile(std::string_view text, const std::string& name) {
  HostCollector collector;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto entry = ParseHost(line);
    const Status status = entry.ok() ? collector.Add(*entry) : entry.status();
    if (!status.ok()) return status.Wrap(fmt::format("{}:{}", name, number));
  }
  std::vector<HostSlots> hosts = collector.Take();
  if (hosts.empty()) {
    return Status::Error(Code::kInvalidArgument, fmt::format("{}: no host in it", name));
  }
  return hosts;
}

Result<std::vector<HostSlots>> ReadHostFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Status::Error(Code::kNotFound,
                         fmt::format("cannot read host file {}: {}", path, std::strerror(errno)));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{}: a host file has at most 1 MiB", path));
  }
  return ParseHostFile(text, path);
}

Result<std::vector<HostSlots>> ParseHostArgument(std::string_view text) {
  HostCollector collector;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const auto entry = ParseHost(Trim(text.substr(at, comma - at)));
    const Status status = entry.ok() ? collector.Add(*entry) : entry.status();
    if (!status.ok()) return status.Wrap("list of hosts");
    at = comma + 1;
  }
  return collector.Take();
}

Result<std::optional<std::vector<HostSlots>>> HostsOfAllocation(const GetEnv& getenv) {
  using Hosts = std::optional<std::vector<HostSlots>>;
  const LaunchVariables variables(getenv);
  if (const auto nodes = variables.Text("SLURM_JOB_NODELIST")) {
    PACELINE_ASSIGN(auto hosts, HostsOfSlurm(*nodes, variables.Text("SLURM_TASKS_PER_NODE")));
    return Hosts(std::move(hosts));
  }
  if (const auto path = variables.Text("PBS_NODEFILE")) {
    auto hosts = ReadHostFile(*path);
    if (!hosts.ok()) return hosts.status().Wrap("PBS_NODEFILE");
    return Hosts(std::move(*hosts));
  }
  return Hosts();
}

}  // namespace paceline::job

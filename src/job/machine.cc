#include "job/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "job/cgroup.h"

namespace paceline::job {

namespace {

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string_view TrimBlanks(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The number that `text` starts with.
std::optional<std::int64_t> ParseInteger(std::string_view text) {
  text = TrimBlanks(text);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// Values of "key<separator>value" lines, in order.
std::vector<std::string> ValuesOf(const std::string& text, std::string_view key, char separator) {
  std::vector<std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || TrimBlanks(std::string_view(line).substr(0, at)) != key)
      continue;
    values.emplace_back(TrimBlanks(std::string_view(line).substr(at + 1)));
  }
  return values;
}

std::string FirstOf(const std::vector<std::string>& values) {
  return values.empty() ? std::string() : values.front();
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

std::int64_t MemoryBytes(const std::string& meminfo, std::string_view key) {
  return ParseInteger(FirstOf(ValuesOf(meminfo, key, ':'))).value_or(0) * 1024;  // lines are in kB
}

// Cores that the quota of one group allows; nothing without a quota.
std::optional<double> CpuQuota(const std::string& folder) {
  const std::vector<std::string> v2 = Words(Slurp(folder + "/cpu.max"));  // "150000 100000"
  std::optional<std::int64_t> quota, period;
  if (v2.size() == 2) {
    quota = ParseInteger(v2[0]);  // "max" is no number
    period = ParseInteger(v2[1]);
  } else {
    quota = ParseInteger(Slurp(folder + "/cpu.cfs_quota_us"));  // -1: no limit
    period = ParseInteger(Slurp(folder + "/cpu.cfs_period_us"));
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

int UsableCores(const std::string& root, int affinity_cores) {
  double cores = affinity_cores;
  for (const std::string& folder : CgroupFolders(root, "cpu")) {
    cores = std::min(cores, CpuQuota(folder).value_or(cores));
  }
  return std::max(1, static_cast<int>(cores));  // 1.5 cores keep one thread busy, not two
}

std::int64_t MemoryLimit(const std::string& root) {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
      const std::optional<std::int64_t> bytes = ParseInteger(Slurp(folder + name));
      if (bytes && *bytes > 0) limit = std::min(limit, *bytes);
    }
  }
  return limit;
}

std::string Unquote(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

Machine ReadMachineBelow(const std::string& root, int affinity_cores) {
  Machine machine;
  const std::string cpuinfo = Slurp(root + "/proc/cpuinfo");
  machine.cpu_model = FirstOf(ValuesOf(cpuinfo, "model name", ':'));
  machine.cpu_flags = Words(FirstOf(ValuesOf(cpuinfo, "flags", ':')));
  if (machine.cpu_flags.empty()) {  // ARM's name for them
    machine.cpu_flags = Words(FirstOf(ValuesOf(cpuinfo, "Features", ':')));
  }
  machine.cores_online = static_cast<int>(ValuesOf(cpuinfo, "processor", ':').size());
  machine.cores = UsableCores(root, affinity_cores);

  const std::string meminfo = Slurp(root + "/proc/meminfo");
  const std::int64_t limit = MemoryLimit(root);
  machine.memory_bytes = std::min(limit, MemoryBytes(meminfo, "MemTotal"));
  machine.memory_available_bytes = std::min(limit, MemoryBytes(meminfo, "MemAvailable"));

  machine.os = Unquote(FirstOf(ValuesOf(Slurp(root + "/etc/os-release"), "PRETTY_NAME", '=')));
  machine.governor =
      TrimBlanks(Slurp(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  std::istringstream(Slurp(root + "/proc/loadavg")) >> machine.load_average;
  const std::string swaps = Slurp(root + "/proc/swaps");  // a heading, then one line a device
  machine.swap_on = std::count(swaps.begin(), swaps.end(), '\n') > 1;
  return machine;
}

JsonObject Machine::Json() const {
  return JsonObject()
      .Add("cpu_model", cpu_model)
      .Add("cpu_flags", fmt::format("{}", fmt::join(cpu_flags, " ")))
      .Add("cores", cores)
      .Add("cores_online", cores_online)
      .Add("memory_bytes", memory_bytes)
      .Add("memory_available_bytes", memory_available_bytes)
      .Add("os", os)
      .Add("kernel", kernel)
      .Add("governor", governor)
      .Add("load_average", load_average)
      .Add("swap_on", swap_on);
}

bool Machine::HasFlag(const std::string& flag) const {
  return std::find(cpu_flags.begin(), cpu_flags.end(), flag) != cpu_flags.end();
}

Machine ReadMachine() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const bool known = ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
  Machine machine = ReadMachineBelow("", known ? CPU_COUNT(&cpus) : 1);
  utsname name{};
  if (::uname(&name) == 0) {
    machine.kernel = std::string(name.sysname) + " " + name.release + " " + name.machine;
  }
  return machine;
}

}  // namespace paceline::job

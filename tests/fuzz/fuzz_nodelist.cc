// Any text as Slurm's list of hosts and as its list of tasks: what comes out is bounded, and every
// name may be given to a command.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "job/endpoint.h"
#include "job/slurm_list.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::job;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto hosts = ExpandNodeList(text); hosts.ok()) {
    PACELINE_CHECK(!hosts->empty() && hosts->size() <= kMaxHosts, "a bounded list");
    for (const std::string& host : *hosts) PACELINE_CHECK(IsHostName(host), "names of hosts");
  }
  if (const auto tasks = ExpandTaskList(text); tasks.ok()) {
    PACELINE_CHECK(!tasks->empty() && tasks->size() <= kMaxHosts, "a bounded list");
    for (const std::uint64_t count : *tasks) {
      PACELINE_CHECK(count >= 1 && count <= kMaxTasksPerHost, "bounded tasks");
    }
  }
  return 0;
}

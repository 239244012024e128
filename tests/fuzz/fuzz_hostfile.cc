// Any text as a host file and as a list of hosts on the command line: every host may be given to
// ssh, and slots are bounded.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "job/host_list.h"
#include "job/ssh_command.h"

namespace {

using Hosts = paceline::Result<std::vector<paceline::job::HostSlots>>;

void Check(const Hosts& hosts) {
  if (!hosts.ok()) return;
  PACELINE_CHECK(!hosts->empty(), "a list has hosts");
  std::uint64_t total = 0;
  for (const paceline::job::HostSlots& each : *hosts) {
    total += each.slots;
    const auto argv = paceline::job::BuildSshCommand({.host = each.host, .argv = {"true"}});
    PACELINE_CHECK(each.slots > 0 && argv.ok(), "ssh takes every host");
  }
  PACELINE_CHECK(total <= paceline::job::kMaxSlots, "bounded slots");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(paceline::job::ParseHostFile(text, "hosts"));
  Check(paceline::job::ParseHostArgument(text));
  return 0;
}

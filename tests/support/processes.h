#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::testing {

// Whoever has this text (the path of a run) on its command line; a zombie has no command line.
std::vector<pid_t> ProcessesOf(const std::string& text);

// Ports on which a process listens.
std::vector<std::uint16_t> ListeningPorts(pid_t pid);

// Different ports of loopback on which nobody listens now; somebody else may take one first.
std::vector<std::uint16_t> FreePorts(std::size_t count);

std::size_t OpenFiles(pid_t pid);
std::size_t ResidentBytes(pid_t pid);

}  // namespace paceline::testing

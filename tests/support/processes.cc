#include "support/processes.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace paceline::testing {

namespace {

std::string ProcOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

std::vector<pid_t> ProcessesOf(const std::string& text) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline");
    std::ostringstream line;
    line << file.rdbuf();  // empty when the process has ended meanwhile
    if (line.str().find(text) != std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

std::vector<std::uint16_t> ListeningPorts(pid_t pid) {
  const std::string proc = ProcOf(pid);
  std::string sockets;
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    std::error_code gone;
    sockets += std::filesystem::read_symlink(entry.path(), gone).string() + " ";
  }
  std::vector<std::uint16_t> ports;
  std::ifstream table(proc + "/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, skipped, inode;
    fields >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    fields >> inode;
    if (state != "0A" || sockets.find("socket:[" + inode + "]") == std::string::npos) continue;
    ports.push_back(static_cast<std::uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
  }
  return ports;
}

std::size_t OpenFiles(pid_t pid) {
  const std::filesystem::directory_iterator files(ProcOf(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::size_t ResidentBytes(pid_t pid) {
  std::size_t all = 0, resident = 0;
  std::ifstream(ProcOf(pid) + "/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace paceline::testing

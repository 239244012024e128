#include "support/processes.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

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

std::vector<std::uint16_t> FreePorts(std::size_t count) {
  std::vector<UniqueFd> sockets;  // all open at once, so that no port comes twice
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(sockets.back().get(), generic, size), 0);
    EXPECT_EQ(::getsockname(sockets.back().get(), generic, &size), 0);
    ports.push_back(ntohs(address.sin_port));
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

#include "job/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace paceline::job {

namespace {

// The number of a line "oom_kill 3" in a file of such lines.
std::optional<std::int64_t> OomKillsIn(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  for (std::int64_t value = 0; file >> key >> value;) {
    if (key == "oom_kill") return value;
  }
  return std::nullopt;
}

bool Lists(const std::string& controllers, std::string_view wanted) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller) {
  std::vector<std::string> folders;
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/path" or, v2, "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !Lists(controllers, controller)) continue;
    const std::string mount =
        root + "/sys/fs/cgroup" + (controllers.empty() ? std::string() : "/" + controllers);
    for (std::string path = line.substr(second + 1);;) {
      folders.push_back(path == "/" ? mount : mount + path);
      const std::size_t slash = path.rfind('/');
      if (path.size() <= 1 || slash == std::string::npos) break;
      path.resize(std::max<std::size_t>(slash, 1));
    }
  }
  return folders;
}

std::optional<std::int64_t> OomKills(const std::string& root) {
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    for (const char* name : {"/memory.events", "/memory.oom_control"}) {
      if (const auto kills = OomKillsIn(folder + name)) return kills;
    }
  }
  return std::nullopt;
}

}  // namespace paceline::job

#include "job/worker_environment.h"

namespace paceline::job {

std::map<std::string, std::string> WorkerEnvironment(const GetEnv& getenv) {
  std::map<std::string, std::string> wanted{
      // Larger than any activation, and larger than all of them together.
      {"MALLOC_MMAP_THRESHOLD_", "4294967296"},
      {"MALLOC_TRIM_THRESHOLD_", "68719476736"},
      {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"},
      // Threads of one operation sleep instead of spinning while they wait for each other.
      {"OMP_WAIT_POLICY", "passive"}};
  std::erase_if(wanted, [&](const auto& entry) { return getenv(entry.first.c_str()) != nullptr; });
  return wanted;
}

}  // namespace paceline::job

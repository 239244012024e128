#include "job/worker_environment.h"

namespace paceline::job {

std::map<std::string, std::string> WorkerEnvironment(const GetEnv& getenv) {
  // Larger than any activation, and larger than all of them together.
  std::map<std::string, std::string> wanted{{"MALLOC_MMAP_THRESHOLD_", "4294967296"},
                                            {"MALLOC_TRIM_THRESHOLD_", "68719476736"},
                                            {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
  std::erase_if(wanted, [&](const auto& entry) { return getenv(entry.first.c_str()) != nullptr; });
  return wanted;
}

}  // namespace paceline::job

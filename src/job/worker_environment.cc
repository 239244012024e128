#include "job/worker_environment.h"

#include "base/cpu.h"

namespace paceline::job {

std::map<std::string, std::string> WorkerEnvironment(const GetEnv& getenv, WorkerHost host) {
  std::map<std::string, std::string> wanted{
      // Larger than any activation, and larger than all of them together.
      {"MALLOC_MMAP_THRESHOLD_", "4294967296"},
      {"MALLOC_TRIM_THRESHOLD_", "68719476736"},
      {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"},
      // Turns of the waiting loop before a thread sleeps: tens of microseconds, not a millisecond.
      {"GOMP_SPINCOUNT", "20000"}};
  if (host == WorkerHost::kThis && HasAvx512()) wanted["OPENBLAS_CORETYPE"] = "SkylakeX";
  std::erase_if(wanted, [&](const auto& entry) { return getenv(entry.first.c_str()) != nullptr; });
  return wanted;
}

}  // namespace paceline::job

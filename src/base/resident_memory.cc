#include "base/resident_memory.h"

#include <unistd.h>

#include <fstream>

namespace paceline {

std::uint64_t ResidentBytes() {
  std::uint64_t all = 0, resident = 0;  // pages
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace paceline

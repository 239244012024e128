#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "base/unique_fd.h"

namespace paceline::testing {

// Who connects to the ports of a job without belonging to it: some send garbage or announce a huge
// frame and go, some send a byte and never finish, as long as this object lives.
class Strangers {
 public:
  // At every port of the process, so many that never finish.
  void Bother(pid_t pid, int slow);
  std::size_t count() const { return slow_.size(); }

 private:
  std::vector<UniqueFd> slow_;
};

}  // namespace paceline::testing

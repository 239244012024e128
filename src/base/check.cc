#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paceline {

void CheckFailed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "paceline: broken invariant: %s (%s) at %s:%d\n", why, condition, file,
               line);
  std::abort();
}

}  // namespace paceline

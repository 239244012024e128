#include "base/cpu.h"

namespace paceline {

Status CheckCpu() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) {
    return Status::Error(Code::kMismatch, "this CPU lacks AVX2, which training needs");
  }
  if (!__builtin_cpu_supports("fma")) {
    return Status::Error(Code::kMismatch, "this CPU lacks FMA, which training needs");
  }
#endif
  return {};
}

}  // namespace paceline

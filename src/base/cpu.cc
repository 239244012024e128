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

bool HasAvx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace paceline

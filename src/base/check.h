#pragma once

namespace paceline {

// Prints the broken invariant and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* why, const char* file, int line);

}  // namespace paceline

// For invariants of our own code only. Bytes from a peer, a file or a user never reach it:
// those are returned as Status.
#define PACELINE_CHECK(condition, why)                              \
  do {                                                              \
    if (!(condition)) [[unlikely]] {                                \
      ::paceline::CheckFailed(#condition, why, __FILE__, __LINE__); \
    }                                                               \
  } while (false)

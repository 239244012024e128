#pragma once

namespace paceline::testing {

// What a test was compiled with: with a sanitizer it finds faults, and is several times slower. How
// well something learns is left to builds without.
#if defined(__has_feature)  // clang
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
inline constexpr bool kSanitized = kThreadSanitizer || __has_feature(address_sanitizer) ||
                                   __has_feature(undefined_behavior_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false, kSanitized = false;
#endif

}  // namespace paceline::testing

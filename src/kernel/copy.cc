#include "kernel/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace paceline::kernel {

namespace {

constexpr std::size_t kTooLongForCache = std::size_t{8} << 20;
constexpr std::size_t kShort = 1024;

#if defined(__AVX2__)
constexpr std::size_t kLine = 64;

// `to` begins a line of the cache.
template <void (*Store)(__m256i*, __m256i)>
void CopyLines(std::byte* to, const std::byte* from, std::size_t lines) {
  for (std::size_t i = 0; i < lines * kLine; i += kLine) {
    const auto* const source = reinterpret_cast<const __m256i*>(from + i);
    const __m256i first = _mm256_loadu_si256(source), second = _mm256_loadu_si256(source + 1);
    auto* const destination = reinterpret_cast<__m256i*>(to + i);
    Store(destination, first);
    Store(destination + 1, second);
  }
  _mm_sfence();  // stores past the cache are not ordered with the flag that tells a reader of them
}
#endif

}  // namespace

void CopyPart(std::span<std::byte> to, std::span<const std::byte> from, std::size_t whole) {
  PACELINE_CHECK(to.size() == from.size(), "same length");
  std::size_t done = 0;
#if defined(__AVX2__)
  if (to.size() > kShort) {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(to.data()) % kLine;
    std::memcpy(to.data(), from.data(), head);
    const std::size_t lines = (to.size() - head) / kLine;
    const auto copy =
        whole < kTooLongForCache ? CopyLines<_mm256_store_si256> : CopyLines<_mm256_stream_si256>;
    copy(to.data() + head, from.data() + head, lines);
    done = head + lines * kLine;
  }
#endif
  if (done < to.size()) std::memcpy(to.data() + done, from.data() + done, to.size() - done);
}

}  // namespace paceline::kernel

#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// Copies a part of `whole` bytes that are copied one part after the other. When the whole is too
// long to be found in the caches afterwards, it goes past them: that saves fetching the destination
// first. Same length; no overlap. Instead of std::memcpy, which with glibc 2.36 on an AMD EPYC
// takes four times as long where the destination is 16 bytes ahead of the source within a page, as
// a long vector is of shared memory (docs/benchmarks.md).
void CopyPart(std::span<std::byte> to, std::span<const std::byte> from, std::size_t whole);

inline void CopyPart(std::span<float> to, std::span<const float> from, std::size_t whole) {
  CopyPart(std::as_writable_bytes(to), std::as_bytes(from), whole);
}

}  // namespace paceline::kernel

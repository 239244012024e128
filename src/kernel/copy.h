#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// Copies bytes that nobody on this core reads soon: long ones go past the caches. std::memcpy
// fetches the destination first, and with glibc 2.36 on AMD's Zen it takes four times as long where
// the destination is a few bytes ahead of the source within a page, as vectors are of shared
// memory. Same length; no overlap.
void CopyPastCache(std::span<std::byte> to, std::span<const std::byte> from);

inline void CopyPastCache(std::span<float> to, std::span<const float> from) {
  CopyPastCache(std::as_writable_bytes(to), std::as_bytes(from));
}

}  // namespace paceline::kernel

#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace paceline {

// Memory that begins with a line of the cache. As long as a line is a vector of AVX-512; one that
// lies across two lines takes twice as long to load or store.
template <typename T>
class LineAllocator {
 public:
  static constexpr std::size_t kLineBytes = 64;
  using value_type = T;

  LineAllocator() = default;
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): what an allocator must offer
  LineAllocator(const LineAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kLineBytes}));
  }
  void deallocate(T* memory, std::size_t /*count*/) {
    ::operator delete (memory, std::align_val_t{kLineBytes});
  }
  bool operator==(const LineAllocator& /*other*/) const { return true; }
};

// For floats that kernels read and write.
template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace paceline

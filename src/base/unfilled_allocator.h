#pragma once

#include <memory>
#include <utility>

namespace paceline {

// Of vectors whose new elements are written before they are read: resize() leaves them as the
// memory was.
template <typename T>
class UnfilledAllocator : public std::allocator<T> {
 public:
  template <typename U>
  struct rebind {  // NOLINT(readability-identifier-naming): the standard's name
    using other = UnfilledAllocator<U>;  // NOLINT(readability-identifier-naming)
  };

  template <typename U>
  void construct(U* at) {  // NOLINT(readability-identifier-naming)
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {  // NOLINT(readability-identifier-naming)
    std::construct_at(at, std::forward<Args>(args)...);
  }
};

}  // namespace paceline

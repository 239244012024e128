#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace paceline::ps {

// Which parts of a buffer hold pushes that are not acknowledged. They are freed in the order in
// which they were taken, but for the newest, which may be given back. Every piece is in one part;
// its place is divisible by 8 if all sizes are. Thread-compatible.
class PushSpace {
 public:
  explicit PushSpace(std::size_t capacity = 0) : capacity_(capacity) {}

  std::size_t capacity() const { return capacity_; }
  // Where the piece begins; none while there is no room. The first place that is large enough, so
  // that memory is used again while it is in the caches, and a few pieces touch little of it.
  // `bytes` is not 0.
  std::optional<std::size_t> Take(std::size_t bytes);
  void FreeOldest() { pieces_.pop_front(); }
  void FreeNewest() { pieces_.pop_back(); }

 private:
  struct Piece {
    std::size_t begin, end;
  };
  std::size_t capacity_;
  std::deque<Piece> pieces_;  // in the order in which they were taken
};

}  // namespace paceline::ps

#include "ps/ring_space.h"

namespace paceline::ps {

std::optional<std::size_t> RingSpace::Take(std::size_t bytes) {
  if (bytes > capacity_) return std::nullopt;
  std::size_t begin = 0;
  if (!pieces_.empty()) {
    const std::size_t oldest = pieces_.front().begin, newest = pieces_.back().end;
    const bool wrapped = newest <= oldest;
    const std::size_t behind = wrapped ? oldest - newest : capacity_ - newest;
    if (bytes <= behind) {
      begin = newest;
    } else if (wrapped || bytes > oldest) {
      return std::nullopt;
    }
  }
  pieces_.push_back({begin, begin + bytes});
  return begin;
}

}  // namespace paceline::ps

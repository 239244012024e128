#include "ps/push_space.h"

#include <algorithm>
#include <vector>

namespace paceline::ps {

std::optional<std::size_t> PushSpace::Take(std::size_t bytes) {
  std::vector<Piece> by_place(pieces_.begin(), pieces_.end());
  std::ranges::sort(by_place, {}, &Piece::begin);
  by_place.push_back({capacity_, capacity_});
  std::size_t begin = 0;
  for (const Piece& piece : by_place) {
    if (bytes <= piece.begin - begin) {
      pieces_.push_back({begin, begin + bytes});
      return begin;
    }
    begin = piece.end;
  }
  return std::nullopt;
}

}  // namespace paceline::ps

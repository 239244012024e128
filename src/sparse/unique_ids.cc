#include "sparse/unique_ids.h"

#include <algorithm>
#include <bit>

namespace paceline::sparse {

void UniqueIds::Reset(std::size_t most) {
  const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(2 * most, 2));
  if (wanted > slots_.size() || batch_ == ~std::uint32_t{0}) {
    slots_.assign(std::max(wanted, slots_.size()), {});
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots_.size()));
    batch_ = 0;
  }
  ++batch_;
}

std::uint32_t UniqueIds::Add(std::int64_t id, std::vector<std::int64_t>& ids) {
  for (std::size_t at = HomeOf(id);; at = (at + 1) & (slots_.size() - 1)) {
    Slot& slot = slots_[at];
    if (slot.batch != batch_) {
      slot = {id, static_cast<std::uint32_t>(ids.size()), batch_};
      ids.push_back(id);
      return slot.number;
    }
    if (slot.id == id) return slot.number;
  }
}

}  // namespace paceline::sparse

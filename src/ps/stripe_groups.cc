#include "ps/stripe_groups.h"

namespace paceline::ps {

std::size_t StripeOf(std::uint64_t hash, std::size_t stripes) {
  return (hash >> 52) & (stripes - 1);
}

StripeGroups::StripeGroups(std::span<const std::int64_t> ids, std::size_t stripes)
    : begins_(stripes + 1), items_(ids.size()), erasures_(stripes) {
  std::vector<std::size_t> next(stripes);
  for (const std::int64_t id : ids) ++next[StripeOf(HashId(id), stripes)];
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    begins_[stripe + 1] = begins_[stripe] + next[stripe];
    next[stripe] = begins_[stripe];
  }
  for (std::size_t position = 0; position < ids.size(); ++position) {
    const std::uint64_t hash = HashId(ids[position]);
    items_[next[StripeOf(hash, stripes)]++] = {hash, ids[position],
                                               static_cast<std::uint32_t>(position)};
  }
}

void StripeGroups::ForgetErased(std::size_t stripe, std::uint64_t erasures) {
  if (erasures_[stripe] == erasures) return;
  for (Item& item : Of(stripe)) item.row = RowStore::kNoRow;
  erasures_[stripe] = erasures;
}

}  // namespace paceline::ps

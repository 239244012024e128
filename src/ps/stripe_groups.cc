#include "ps/stripe_groups.h"

#include "ps/row_store.h"

namespace paceline::ps {

std::size_t StripeOf(std::uint64_t hash, std::size_t stripes) {
  return (hash >> 52) & (stripes - 1);
}

StripeGroups::StripeGroups(std::span<const std::int64_t> ids, std::size_t stripes)
    : begins_(stripes + 1), items_(ids.size()) {
  std::vector<std::size_t> next(stripes);
  for (const std::int64_t id : ids) ++next[StripeOf(HashId(id), stripes)];
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    begins_[stripe + 1] = begins_[stripe] + next[stripe];
    next[stripe] = begins_[stripe];
  }
  for (std::size_t position = 0; position < ids.size(); ++position) {
    const std::uint64_t hash = HashId(ids[position]);
    items_[next[StripeOf(hash, stripes)]++] = {hash, ids[position], position};
  }
}

}  // namespace paceline::ps

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::ps {

// The ids of one call, grouped by the stripe of a table that keeps them, so that each stripe is
// locked once. Immutable.
class StripeGroups {
 public:
  struct Item {
    std::uint64_t hash;  // HashId(id)
    std::int64_t id;
    std::size_t position;  // in the call
  };

  // `stripes` is a power of two, at most kMaxStripes.
  StripeGroups(std::span<const std::int64_t> ids, std::size_t stripes);

  // In the order of the call.
  std::span<const Item> Of(std::size_t stripe) const {
    return std::span(items_).subspan(begins_[stripe], begins_[stripe + 1] - begins_[stripe]);
  }

 private:
  std::vector<std::size_t> begins_;
  std::vector<Item> items_;
};

// Their number comes from bits of the hash that RowStore leaves alone.
inline constexpr std::size_t kMaxStripes = 4096;
std::size_t StripeOf(std::uint64_t hash, std::size_t stripes);

}  // namespace paceline::ps

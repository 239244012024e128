#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/row_store.h"

namespace paceline::ps {

// Ids, grouped by the stripe of a table that keeps them, so that each stripe is locked once, and
// where that table has found their rows: it does not look again when it is called with them again.
// Thread-compatible.
class StripeGroups {
 public:
  struct Item {
    std::uint64_t hash;  // HashId(id)
    std::int64_t id;
    std::uint32_t position;                      // among the ids
    RowStore::RowNumber row = RowStore::kNoRow;  // of the stripe's RowStore; kNoRow: not known
  };

  // `stripes` is a power of two, at most kMaxStripes.
  StripeGroups(std::span<const std::int64_t> ids, std::size_t stripes);

  // In their order.
  std::span<Item> Of(std::size_t stripe) {
    return std::span(items_).subspan(begins_[stripe], begins_[stripe + 1] - begins_[stripe]);
  }
  std::size_t size() const { return items_.size(); }
  std::size_t stripes() const { return erasures_.size(); }

  // Forgets the rows of a stripe unless they were found after as many erasures as now.
  void ForgetErased(std::size_t stripe, std::uint64_t erasures);

 private:
  std::vector<std::size_t> begins_;
  std::vector<Item> items_;
  std::vector<std::uint64_t> erasures_;  // by stripe
};

// The ids of some stripes, from `begin` to before `end`. Different ones of the same ids may be used
// by different threads at the same time.
struct StripePart {
  // NOLINTNEXTLINE(google-explicit-constructor): whoever has ids means all of them
  StripePart(StripeGroups& all) : groups(all), end(all.stripes()) {}
  // Number `part` of `parts` that have about as many stripes each.
  StripePart(StripeGroups& all, std::size_t part, std::size_t parts)
      : groups(all), begin(part * all.stripes() / parts), end((part + 1) * all.stripes() / parts) {}

  StripeGroups& groups;
  std::size_t begin = 0, end = 0;
};

// Their number comes from bits of the hash that RowStore leaves alone.
inline constexpr std::size_t kMaxStripes = 4096;
std::size_t StripeOf(std::uint64_t hash, std::size_t stripes);

}  // namespace paceline::ps

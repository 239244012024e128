#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace paceline::data {

// The shape of Criteo's display advertising data: integer features and categorical ones.
inline constexpr std::size_t kCtrDense = 13;
inline constexpr std::size_t kCtrSlots = 26;
// Categories are hashed into this many ids, which all slots share (Paddle's ctr benchmark).
inline constexpr std::uint32_t kCtrIds = 1'000'001;

struct CtrSample {
  std::array<float, kCtrDense> dense{};
  std::array<std::uint32_t, kCtrSlots> ids{};
  std::uint8_t label = 0;  // 1: clicked
  friend bool operator==(const CtrSample&, const CtrSample&) = default;
};

// Advertisements shown and whether they were clicked, addressed by index. Immutable after opening
// and thread-safe: any thread may read. Does not shuffle or batch; see algo/batch_plan.h.
class CtrDataset {
 public:
  virtual ~CtrDataset() = default;

  virtual std::uint64_t size() const = 0;  // usable records
  virtual std::uint32_t ids() const { return kCtrIds; }

  // index < size(); every id of the sample is below ids().
  virtual Status Read(std::uint64_t index, CtrSample& sample) const = 0;

  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;

  // Records left out because they are corrupt.
  virtual std::uint64_t BadRecords() const { return 0; }
};

// The argument check that every Read starts with.
Status CheckRead(const CtrDataset& dataset, std::uint64_t index);

}  // namespace paceline::data

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::data {

// A query with a title that fits and one that does not, as word ids in order.
struct SimnetSample {
  std::vector<std::int64_t> query;
  std::vector<std::int64_t> positive;
  std::vector<std::int64_t> negative;
};

// Samples for semantic matching, addressed by index. Immutable after opening and thread-safe.
class SimnetSource {
 public:
  virtual ~SimnetSource() = default;

  virtual std::uint64_t size() const = 0;
  virtual std::uint64_t dictionary() const = 0;  // ids are in [0, dictionary())

  // index < size(); overwrites `sample`.
  virtual Status Read(std::uint64_t index, SimnetSample& sample) const = 0;

  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;
};

}  // namespace paceline::data

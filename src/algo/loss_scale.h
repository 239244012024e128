#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace paceline::algo {

// The factor on the loss that keeps small gradients out of the range where few bits are left. The
// gradient is divided by it before anybody looks at it. Powers of two change no bit but where
// something over- or underflows. A value, part of a run's state.
struct LossScale {
  double scale = 1;
  bool dynamic = false;  // halved when a gradient overflows, doubled after kGrowEvery good steps
  std::uint64_t good_steps = 0;  // since it changed

  // As PyTorch's GradScaler.
  static constexpr double kFirst = 65536;
  static constexpr std::uint64_t kGrowEvery = 2000;
  // Far above what any gradient of use has.
  static constexpr double kMost = 16'777'216;

  // True: a gradient that is not finite is to be expected, and the next step is tried with less.
  bool CanShrink() const { return dynamic && scale > 1; }
  void After(bool finite);

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

// A power of two from 1 to kMost, or "dynamic".
Result<LossScale> ParseLossScale(std::string_view text);

}  // namespace paceline::algo

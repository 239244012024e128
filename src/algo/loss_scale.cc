#include "algo/loss_scale.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace paceline::algo {

void LossScale::After(bool finite) {
  if (!dynamic) return;
  if (!finite) {
    scale = std::max(1.0, scale / 2);
    good_steps = 0;
    return;
  }
  if (++good_steps < kGrowEvery) return;
  scale = std::min(kMost, scale * 2);
  good_steps = 0;
}

Result<LossScale> ParseLossScale(std::string_view text) {
  if (text == "dynamic") return LossScale{.scale = LossScale::kFirst, .dynamic = true};
  std::uint64_t scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  const bool number = error == std::errc() && end == text.data() + text.size();
  const bool power = scale > 0 && (scale & (scale - 1)) == 0;
  if (!number || !power || static_cast<double>(scale) > LossScale::kMost) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--loss-scale is '{}'; it takes a power of two from 1 to {}, "
                                     "or dynamic",
                                     text, LossScale::kMost));
  }
  return LossScale{.scale = static_cast<double>(scale)};
}

}  // namespace paceline::algo

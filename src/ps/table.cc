#include "ps/table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "ps/stripe_groups.h"

namespace paceline::ps {

Status CheckTableOptions(const TableOptions& options) {
  const auto refuse = [&](const std::string& why) {
    return Status::Error(Code::kInvalidArgument, fmt::format("table '{}': {}", options.name, why));
  };
  if (options.dim < 1 || options.dim > kMaxDim) {
    return refuse(fmt::format("{} floats a row; 1 to {} are possible", options.dim, kMaxDim));
  }
  if (!std::isfinite(options.init_range) || options.init_range < 0) {
    return refuse(fmt::format("the initial range {} is not 0 or more", options.init_range));
  }
  if (!std::has_single_bit(options.stripes) || options.stripes > kMaxStripes) {
    return refuse(fmt::format("{} stripes; a power of two up to {} is possible", options.stripes,
                              kMaxStripes));
  }
  const AdmissionOptions& admission = options.admission;
  if (admission.touches < 1 || admission.touches > kMaxAdmissionTouches) {
    return refuse(fmt::format("admission after {} touches; 1 to {} are possible", admission.touches,
                              kMaxAdmissionTouches));
  }
  if (!(admission.probability >= 0 && admission.probability <= 1)) {
    return refuse(fmt::format("{} is not a probability of admission", admission.probability));
  }
  return {};
}

bool EvictsWith(std::uint64_t round, std::uint32_t evict_after) {
  if (evict_after == 0 || round < evict_after) return false;
  constexpr std::uint32_t kSweeps = 8;  // while a row gets old enough
  return round % std::max<std::uint32_t>(1, evict_after / kSweeps) == 0;
}

}  // namespace paceline::ps

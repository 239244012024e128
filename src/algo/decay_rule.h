#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::algo {

// Which parameters weight decay leaves alone. Immutable.
class DecayRule {
 public:
  DecayRule() = default;  // all decay

  // "none", or a list with commas: "norm-bias" stands for all tensors of rank 1 or 0 (biases,
  // weights of normalisation), anything else is a pattern of names, in which * stands for any text.
  static Result<DecayRule> Parse(std::string_view text);

  bool Decays(const std::string& name, std::size_t rank) const;

 private:
  bool spares_low_rank_ = false;
  std::vector<std::string> patterns_;
};

}  // namespace paceline::algo

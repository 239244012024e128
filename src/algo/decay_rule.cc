#include "algo/decay_rule.h"

#include <fnmatch.h>

#include <algorithm>

#include <fmt/format.h>

namespace paceline::algo {

Result<DecayRule> DecayRule::Parse(std::string_view text) {
  DecayRule rule;
  if (text == "none") return rule;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (part.empty() || part == "none") {
      return Status::Error(
          Code::kInvalidArgument,
          fmt::format("--decay-exclude is '{}'; it takes none, or norm-bias and patterns of "
                      "parameter names with commas between them",
                      text));
    }
    if (part == "norm-bias") {
      rule.spares_low_rank_ = true;
    } else {
      rule.patterns_.emplace_back(part);
    }
    begin = end + 1;
  }
  return rule;
}

bool DecayRule::Decays(const std::string& name, std::size_t rank) const {
  if (spares_low_rank_ && rank <= 1) return false;
  return std::ranges::none_of(patterns_, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

}  // namespace paceline::algo

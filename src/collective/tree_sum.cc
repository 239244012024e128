#include "collective/tree_sum.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kernel/reduce.h"

namespace paceline::collective {

namespace {

// Floats added at a time: a handful of blocks fits into the first-level cache.
constexpr std::size_t kBlock = 1024;

}  // namespace

TreeSum::TreeSum(const algo::TreeNode& root, std::span<const algo::TreeNode> known)
    : order_(known.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](std::size_t a, std::size_t b) { return known[a].begin < known[b].begin; });
  std::vector<algo::TreeNode> sorted;
  sorted.reserve(known.size());
  for (const std::size_t i : order_) sorted.push_back(known[i]);
  program_ = algo::MakeTreeProgram(root, sorted);
  temporaries_.resize(program_.slots * kBlock);
}

void TreeSum::Run(std::span<const float* const> sources, std::span<float* const> destinations,
                  std::size_t count) {
  PACELINE_CHECK(sources.size() == order_.size(), "one array for each known subtree");
  values_.clear();
  for (const std::size_t i : order_) values_.push_back(sources[i]);
  if (program_.adds.empty()) {
    for (float* destination : destinations) {
      if (destination != values_[0]) std::copy_n(values_[0], count, destination);
    }
    return;
  }
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    RunBlock(begin, std::min(kBlock, count - begin), destinations);
  }
}

const float* TreeSum::Value(std::size_t number, std::size_t begin) const {
  if (number < program_.sources) return values_[number] + begin;
  return temporaries_.data() + program_.adds[number - program_.sources].slot * kBlock;
}

void TreeSum::RunBlock(std::size_t begin, std::size_t count, std::span<float* const> destinations) {
  for (std::size_t i = 0; i < program_.adds.size(); ++i) {
    const algo::TreeProgram::Add& add = program_.adds[i];
    const std::span<const float> left(Value(add.left, begin), count);
    const std::span<const float> right(Value(add.right, begin), count);
    targets_.clear();
    if (i + 1 < program_.adds.size()) {
      targets_.push_back(temporaries_.data() + add.slot * kBlock);
    } else {
      for (float* destination : destinations) targets_.push_back(destination + begin);
    }
    kernel::AddSpread(left, right, targets_);
  }
}

}  // namespace paceline::collective

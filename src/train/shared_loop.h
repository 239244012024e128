#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <ATen/Parallel.h>

#include "train/loop_helper.h"

namespace paceline::train {

struct LoopShape {
  std::size_t count = 0;
  std::size_t grain = 1;
  // With a helper: few, where wide ranges are faster, but so many that neither waits long for the
  // other's last one.
  std::size_t most_shared_parts = 8;
};

// body(begin, end) for ranges that cover [0, count) and begin at multiples of the grain: one range
// on this thread; several by torch's threads where it has more than one, or with a helper whose
// core has nothing else to do. So what is computed must not depend on how the range is cut.
template <typename Body>
void SharedLoop(const LoopShape& shape, const Body& body) {
  const std::size_t count = shape.count, grain = shape.grain, most = shape.most_shared_parts;
  const std::size_t grains = (count + grain - 1) / grain;
  LoopHelper* const helper = LoopHelper::Current();
  if (helper != nullptr && helper->Ready() && grains > 1) {
    const std::size_t size = (grains + most - 1) / most * grain;
    helper->Run((count + size - 1) / size,
                [&](std::size_t i) { body(i * size, std::min(count, (i + 1) * size)); });
    return;
  }
  at::parallel_for(0, static_cast<std::int64_t>(grains), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     body(static_cast<std::size_t>(begin) * grain,
                          std::min(count, static_cast<std::size_t>(end) * grain));
                   });
}

}  // namespace paceline::train

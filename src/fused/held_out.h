#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "algo/batch_plan.h"
#include "base/status.h"
#include "data/ctr_dataset.h"
#include "data/simnet_source.h"

namespace paceline::fused {

// How many of `size` samples of files are held out, the last ones: what was asked for, or a tenth.
// kInvalidArgument when nothing would be left to train on.
Result<std::uint64_t> HeldOutSamples(std::uint64_t size, std::uint64_t asked);

// Some neighbouring samples of a data set. Immutable, thread-safe.
std::shared_ptr<const data::CtrDataset> PartOf(std::shared_ptr<const data::CtrDataset> all,
                                               const algo::PositionRange& part);
std::shared_ptr<const data::SimnetSource> PartOf(std::shared_ptr<const data::SimnetSource> all,
                                                 const algo::PositionRange& part);

}  // namespace paceline::fused

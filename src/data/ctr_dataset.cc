#include "data/ctr_dataset.h"

#include <fmt/format.h>

namespace paceline::data {

Status CheckRead(const CtrDataset& dataset, std::uint64_t index) {
  if (index < dataset.size()) return {};
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("sample {} of {}", index, dataset.size()));
}

}  // namespace paceline::data

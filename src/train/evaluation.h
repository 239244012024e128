#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "data/dataset.h"
#include "train/image_model.h"

namespace paceline::train {

struct Evaluation {
  std::uint64_t samples = 0;
  double loss = 0;      // mean cross entropy
  double accuracy = 0;  // 0..1
  double auc = 0;       // one class against the rest, averaged over the classes that occur
};

// Runs the model over a held-out data set, without dropout and with running statistics. kAborted
// once `stop` says so; it is asked before every batch.
Result<Evaluation> Evaluate(ImageModel& model, const data::Dataset& dataset, std::size_t batch,
                            const std::function<bool()>& stop);

}  // namespace paceline::train

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "collective/engine.h"
#include "data/dataset.h"
#include "train/image_model.h"

namespace paceline::train {

struct Evaluation {
  std::uint64_t samples = 0;
  double loss = 0;      // mean cross entropy
  double accuracy = 0;  // 0..1
  double auc = 0;       // one class against the rest, averaged over the classes that occur
};

struct EvaluationOptions {
  std::size_t batch = 100;
  std::function<bool()> stop;            // asked before every batch; the same answer on every rank
  collective::Engine* engine = nullptr;  // ranks take turns with the batches; null: alone
};

// Runs the model over a held-out data set, without dropout and with running statistics. The result
// does not depend on the number of ranks. kAborted once `stop` says so. Collective.
Result<Evaluation> Evaluate(ImageModel& model, const data::Dataset& dataset,
                            const EvaluationOptions& options);

}  // namespace paceline::train

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collective/engine.h"
#include "data/batch.h"
#include "train/zoo.h"

namespace paceline::train {

struct Evaluation {
  std::uint64_t samples = 0;
  std::vector<Metric> metrics;  // as the objective has them

  double Of(std::string_view name) const;  // NaN: there is no such figure
};

struct EvaluationOptions {
  std::size_t batch = 100;
  std::function<bool()> stop;            // asked before every batch; the same answer on every rank
  collective::Engine* engine = nullptr;  // ranks take turns with the batches; null: alone
  std::size_t data_threads = 1;          // prepare batches while the model computes
  const data::Tokenizer* tokenizer = nullptr;  // of the data, if they are text from files
};

// Runs the model over held-out samples, without dropout and with running statistics. The result
// does not depend on the number of ranks. kAborted once `stop` says so. Collective.
Result<Evaluation> Evaluate(const BuiltModel& model, const data::BatchSource& source,
                            const EvaluationOptions& options);

}  // namespace paceline::train

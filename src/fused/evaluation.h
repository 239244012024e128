#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "fused/model_factory.h"
#include "ps/store.h"

namespace paceline::fused {

// How good a model was when it was asked; absent: not known of this kind of model or data.
struct Evaluation {
  std::uint64_t samples = 0;  // held out; of words: questions
  std::optional<double> auc;
  std::optional<double> accuracy;    // pairs in the right order, or analogies found
  std::optional<double> top4;        // analogies whose answer is among the four nearest words
  std::optional<double> pair_ratio;  // right / wrong
  std::optional<double> similarity;  // rank correlation with how alike words are
};

struct EvaluationOptions {
  std::uint64_t trainer = 0;      // who asks
  std::uint64_t min_version = 0;  // of the parameters, as in ps::PullRequest
  std::function<bool()> stop;     // kAborted when it says so
};

// Judges the parameters that the store has, changing none. The text of a file comes without
// questions: nothing is known about it.
Result<Evaluation> Evaluate(const ModelWithData& model, ps::Store& store,
                            const EvaluationOptions& options);

}  // namespace paceline::fused

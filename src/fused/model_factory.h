#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/synthetic_text.h"
#include "data/text_source.h"
#include "data/text_vocabulary.h"
#include "job/train_config.h"
#include "sparse/fused_model.h"

namespace paceline::fused {

// How good a model is.
enum class Metric {
  kAuc,      // of held-out clicks
  kOrder,    // how often the title that fits comes first
  kAnalogy,  // questions "a is to b as c is to ?", and how alike words are
};

// A model with the samples to train it on and those to judge it by. Owns the data; the models
// borrow it, so it may be moved and not taken apart.
struct ModelWithData {
  std::unique_ptr<sparse::FusedModel> model;
  std::unique_ptr<sparse::FusedModel> held_out;  // the same shape on other samples; kAnalogy: none
  Metric metric = Metric::kAuc;
  std::optional<double> best_auc;  // that any model can have; known of synthetic clicks
  std::vector<data::AnalogyQuestion> questions;
  std::vector<data::SimilarityPair> similarities;
  const data::Vocabulary* vocabulary = nullptr;  // of a text in files; one of `sources` owns it

  std::string fingerprint;  // of the training samples
  std::uint64_t bad_records = 0;
  std::vector<std::string> warnings;
  std::vector<std::shared_ptr<const void>> sources;  // what the models read from
};

// The model that a resolved configuration names, on `--data synthetic` or on files: Criteo's
// text for clicks, a sentence per line for words, three lists of ids per line for matching. Of
// files the last samples are held out: --eval-samples, or a tenth. kBadData names the file.
Result<ModelWithData> MakeModel(const job::TrainConfig& config);

}  // namespace paceline::fused

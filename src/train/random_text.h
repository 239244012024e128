#pragma once

#include <cstdint>
#include <string>

#include "data/batch.h"
#include "model/catalog.h"

namespace paceline::train {

// Batches for measuring models of text: every sample as long as the one whose operations the card
// counts, words at random, so that each step does the same work and a peer can do it too. There is
// nothing to learn in them. Arrays are those of the card's family. Immutable, thread-safe.
class RandomText final : public data::BatchSource {
 public:
  // Of a model for translation or masked language.
  explicit RandomText(const model::ModelCard& card)
      : family_(card.family), vocabulary_(card.vocabulary), length_(card.input_shape[0]) {}

  std::uint64_t size() const override { return 1'000'000; }
  Status Fill(const data::FillRequest& request, data::BatchBuffer& buffer) const override;
  std::string Fingerprint() const override { return "random text"; }

 private:
  Status FillTranslation(const data::FillRequest& request, data::BatchBuffer& buffer) const;
  Status FillMasked(const data::FillRequest& request, data::BatchBuffer& buffer) const;

  model::Family family_;
  std::int64_t vocabulary_, length_;
};

}  // namespace paceline::train

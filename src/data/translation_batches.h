#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "data/batch.h"
#include "data/token_packs.h"
#include "data/translation_source.h"

namespace paceline::data {

// Batches of sentence pairs, padded to their longest: array 0 holds source ids [n, S], array 1 what
// the decoder reads [n, T] (begins with <s>), array 2 what it should say [n, T] (ends with </s>),
// array 3 weights [n, T], 0 on padding. A sample is a pair, or with packs all pairs of a pack; the
// weights of a sample add up to 1. Nothing is random. Immutable, thread-safe.
class TranslationBatches final : public BatchSource {
 public:
  explicit TranslationBatches(std::shared_ptr<const TranslationSource> source)
      : source_(std::move(source)) {}
  TranslationBatches(std::shared_ptr<const TranslationSource> source, const PackOptions& options)
      : source_(std::move(source)), packs_(std::in_place, *source_, options), options_(options) {}

  std::uint64_t size() const override { return packs_ ? packs_->size() : source_->size(); }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override;
  std::string Fingerprint() const override;
  std::uint64_t BadRecords() const override { return source_->BadRecords(); }

 private:
  std::shared_ptr<const TranslationSource> source_;
  std::optional<TokenPacks> packs_;
  PackOptions options_;
};

}  // namespace paceline::data

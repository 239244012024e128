#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "data/batch.h"
#include "data/document_source.h"

namespace paceline::data {

// One instance of BERT's pre-training (Devlin et al. 2019): [CLS] first [SEP] second [SEP].
struct MaskedInstance {
  std::vector<std::int32_t> tokens;   // as the model sees them
  std::size_t second = 0;             // where the second segment begins
  std::vector<std::uint32_t> places;  // of masked tokens, rising
  std::vector<std::int32_t> right;    // what was there
  bool is_next = false;               // the second really follows the first
};

// Hides 15 % of the pieces between the marks, at least one: 80 % become [MASK], 10 % any piece, 10
// % stay. `vocabulary`: ids are below.
void MaskTokens(CounterRng& rng, std::uint32_t vocabulary, MaskedInstance& instance);

// Instances made from documents while training, without a step before it: array 0 holds tokens
// [n, L], 1 segments [n, L], 2 masked places [m] in the flat n * L, 3 the right tokens [m], 4
// weights [m] (1 / masks of the sample), 5 whether the second segment really follows [n].
//
// A sample is a stretch of sentences of one document, about as long as an instance. Where it is cut
// into first and second segment, whether the second is replaced by a stretch of another document
// (half of the time), how it is shortened and what is masked are a function of (seed, step, place)
// in training, and of the index alone when held out. Immutable, thread-safe.
class MaskedBatches final : public BatchSource {
 public:
  struct Options {
    std::uint32_t max_length = 128;  // of an instance, its three marks included; from 8 on
  };
  // Needs the length of every sentence to know where stretches end. A document of one sentence only
  // serves as a second segment. kBadData for less than two documents, or none with two sentences.
  static Result<std::unique_ptr<MaskedBatches>> Create(
      std::shared_ptr<const DocumentSource> documents, const Options& options);

  std::uint64_t size() const override { return stretches_.size(); }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override;
  std::string Fingerprint() const override;
  std::uint64_t BadRecords() const override { return documents_->BadRecords(); }

  // The instance of a sample as this generator has it.
  Status Make(std::uint64_t index, CounterRng rng, MaskedInstance& instance) const;

 private:
  struct Stretch {
    std::uint64_t document = 0;
    std::uint32_t first = 0, count = 0;  // sentences; at least two
  };

  MaskedBatches(std::shared_ptr<const DocumentSource> documents, const Options& options)
      : documents_(std::move(documents)), options_(options) {}
  Status CutDocument(std::uint64_t document);
  // Appends sentences until there are `enough` pieces.
  Status ReadSentences(const Stretch& stretch, std::size_t enough,
                       std::vector<std::int32_t>& ids) const;
  Status ReadSecond(CounterRng& rng, const Stretch& rest, bool is_next,
                    std::vector<std::int32_t>& ids) const;

  std::shared_ptr<const DocumentSource> documents_;
  Options options_;
  std::vector<Stretch> stretches_;
};

}  // namespace paceline::data

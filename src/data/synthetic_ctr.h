#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "data/cifar10.h"
#include "data/ctr_dataset.h"

namespace paceline::data {

inline constexpr std::uint64_t kSyntheticCtrTrainSize = 1'000'000;
inline constexpr std::uint64_t kSyntheticCtrTestSize = 100'000;
// Few enough ids that a model sees each of them often within seconds.
inline constexpr std::uint32_t kSyntheticCtrFewIds = 1001;

struct SyntheticCtrOptions {
  std::uint64_t seed = 0;
  std::uint64_t size = kSyntheticCtrTrainSize;
  Split split = Split::kTrain;  // the splits share the distribution, never a sample
  std::uint32_t ids = kCtrIds;
};

// Clicks with the shape of Criteo's data; every sample is a pure function of (seed, split, index),
// so no file is needed and any worker can make any sample.
//
// Slots have vocabularies from a handful to `ids` categories, popular ones first: a category in
// [2^k, 2^(k+1)) is as likely as one in any other octave, which is Zipf's law with exponent 1 in
// steps. Categories are scattered over the ids, which all slots share as Criteo's hashed ones do.
//
// The label is drawn from a known probability: a logistic function of the dense features, of a
// weight of each id, and of products of hidden signs of pairs of ids, which no linear model finds.
// So the best possible AUC is known.
//
// Immutable, thread-safe. Rare ids are rare: with all of kCtrIds the best AUC is out of reach of
// any run that does not see each of them several times.
class SyntheticCtr final : public CtrDataset {
 public:
  explicit SyntheticCtr(const SyntheticCtrOptions& options);

  std::uint64_t size() const override { return options_.size; }
  std::uint32_t ids() const override { return options_.ids; }
  Status Read(std::uint64_t index, CtrSample& sample) const override;
  std::string Fingerprint() const override;

  // The probability that the sample's label was drawn from; its label does not matter.
  double ClickProbability(const CtrSample& sample) const;

  // The AUC that scoring the first `samples` samples by their true probability is expected to
  // have: no model can expect more. 0 < samples <= size().
  double BestAuc(std::uint64_t samples) const;

 private:
  SyntheticCtrOptions options_;
  std::uint64_t weight_key_;
  std::array<std::uint32_t, kCtrSlots> octaves_;  // of each slot's vocabulary
};

}  // namespace paceline::data

#include "data/synthetic_ctr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"

namespace paceline::data {

namespace {

// Sample coordinates that no training sample has.
constexpr std::uint64_t kCtrTestBegin = std::uint64_t{1} << 40;
constexpr std::uint64_t kWeightCoordinate = ~std::uint64_t{0};

// Slots 0 and 1, 2 and 3, ... up to here interact.
constexpr std::size_t kInteractingSlots = 8;

// Chosen so that about a quarter of the samples are clicks, as in Criteo's data, and so that the
// best AUC is about 0.85.
constexpr double kBias = -1.6;
constexpr double kDenseScale = 1.0;
constexpr double kWeightScale = 0.5;
constexpr double kInteractionScale = 0.5;

// Finaliser of SplitMix64: cheaper than Philox for the many weights of one sample.
constexpr std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Uniform in [-1, 1) from the upper bits.
constexpr double Signed(std::uint64_t word) {
  return static_cast<double>(static_cast<std::int64_t>(word) >> 11) * 0x1p-52;
}

// Category c of a vocabulary with `octaves` octaves: c + 1 in [2^k, 2^(k+1)), every k as likely.
std::uint32_t DrawCategory(std::uint32_t octaves, std::uint32_t random) {
  const std::uint64_t product = std::uint64_t{random} * octaves;
  const auto octave = static_cast<unsigned>(product >> 32);
  const std::uint64_t within = ((product & 0xFFFFFFFF) << octave) >> 32;
  return static_cast<std::uint32_t>((std::uint64_t{1} << octave) + within - 1);
}

}  // namespace

SyntheticCtr::SyntheticCtr(const SyntheticCtrOptions& options)
    : options_(options),
      weight_key_(DeriveKey(options.seed, Purpose::kSynthetic, kWeightCoordinate, 1)) {
  PACELINE_CHECK(options.ids > 1, "ids to choose from");
  // From two octaves (three categories) to all ids, evenly over the slots; slots that interact
  // come first and so have few categories, of which each pair occurs often.
  const auto most = std::max(2U, static_cast<std::uint32_t>(std::bit_width(options.ids)) - 1);
  for (std::uint32_t slot = 0; slot < kCtrSlots; ++slot) {
    octaves_[slot] = 2 + (most - 2) * slot / (std::uint32_t{kCtrSlots} - 1);
  }
}

// About half a microsecond a sample.
Status SyntheticCtr::Read(std::uint64_t index, CtrSample& sample) const {
  PACELINE_TRY(CheckRead(*this, index));
  CounterRng rng(options_.seed, Purpose::kSynthetic,
                 index + (options_.split == Split::kTest ? kCtrTestBegin : 0), 2);
  for (float& value : sample.dense) {
    // Counts are skewed: many small, few large.
    const float uniform = rng.Uniform();
    value = uniform * uniform;
  }
  for (std::size_t slot = 0; slot < kCtrSlots; ++slot) {
    const std::uint64_t category = DrawCategory(octaves_[slot], rng.Next());
    sample.ids[slot] =
        static_cast<std::uint32_t>(Mix((std::uint64_t{slot} << 32) | category) % options_.ids);
  }
  sample.label = double{rng.Uniform()} < ClickProbability(sample) ? 1 : 0;
  return {};
}

double SyntheticCtr::ClickProbability(const CtrSample& sample) const {
  double logit = kBias;
  for (std::size_t i = 0; i < kCtrDense; ++i) {
    // The mean of a squared uniform number is 1/3.
    logit += kDenseScale * Signed(Mix(weight_key_ - 1 - i)) * (double{sample.dense[i]} - 1.0 / 3);
  }
  std::array<std::uint64_t, kCtrSlots> words;
  for (std::size_t slot = 0; slot < kCtrSlots; ++slot) {
    words[slot] = Mix(weight_key_ + sample.ids[slot]);
    logit += kWeightScale * Signed(words[slot]);
  }
  for (std::size_t slot = 0; slot < kInteractingSlots; slot += 2) {
    // The lowest bit has no part in the weight.
    const bool same = ((words[slot] ^ words[slot + 1]) & 1) == 0;
    logit += same ? kInteractionScale : -kInteractionScale;
  }
  return 1 / (1 + std::exp(-logit));
}

double SyntheticCtr::BestAuc(std::uint64_t samples) const {
  PACELINE_CHECK(samples > 0 && samples <= options_.size, "samples that there are");
  std::vector<double> probability(samples);
  CtrSample sample;
  for (std::uint64_t i = 0; i < samples; ++i) {
    const Status status = Read(i, sample);
    PACELINE_CHECK(status.ok(), "an index within the data set");
    probability[i] = ClickProbability(sample);
  }
  // Sample i is positive with weight p and negative with weight 1 - p. The pair of a sample with
  // itself is left out; it counts in neither the right ones nor in all.
  std::ranges::sort(probability);
  double right = 0, negatives = 0, positives = 0, itself = 0;
  for (const double p : probability) {
    right += p * negatives;
    negatives += 1 - p;
    positives += p;
    itself += p * (1 - p);
  }
  return right / (positives * negatives - itself);
}

std::string SyntheticCtr::Fingerprint() const {
  return fmt::format("synthetic-ctr:1 seed:{} split:{} records:{} ids:{}", options_.seed,
                     options_.split == Split::kTrain ? "train" : "test", options_.size,
                     options_.ids);
}

}  // namespace paceline::data

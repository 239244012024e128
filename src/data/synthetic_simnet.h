#pragma once

#include <cstdint>
#include <string>

#include "base/rng.h"
#include "base/status.h"
#include "data/simnet_source.h"

namespace paceline::data {

struct SyntheticSimnetOptions {
  std::uint64_t seed = 0;
  std::uint64_t size = 100'000;
  std::uint64_t first = 0;  // samples begin here: disjoint ranges are training and held-out data
  std::uint32_t dictionary = 10'000;
  std::uint32_t topics = 50;  // at least 2, at most the dictionary
};

// Queries and titles about hidden topics: word w belongs to topic w % topics. A query and the title
// that fits are about one topic, the other title about another one; three quarters of the words are
// of the topic, the others of any. Topics have to be learned from which words go together.
// Each sample is a pure function of (seed, first + index). Immutable, thread-safe.
class SyntheticSimnet final : public SimnetSource {
 public:
  explicit SyntheticSimnet(const SyntheticSimnetOptions& options);

  std::uint64_t size() const override { return options_.size; }
  std::uint64_t dictionary() const override { return options_.dictionary; }
  Status Read(std::uint64_t index, SimnetSample& sample) const override;
  std::string Fingerprint() const override;

 private:
  struct Lengths {
    std::uint32_t least, most;
  };
  void Draw(CounterRng& rng, std::uint32_t topic, Lengths lengths,
            std::vector<std::int64_t>& ids) const;

  SyntheticSimnetOptions options_;
};

}  // namespace paceline::data

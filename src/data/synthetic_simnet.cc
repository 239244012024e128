#include "data/synthetic_simnet.h"

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::data {

SyntheticSimnet::SyntheticSimnet(const SyntheticSimnetOptions& options) : options_(options) {
  PACELINE_CHECK(options.topics >= 2 && options.topics <= options.dictionary, "topics have words");
}

void SyntheticSimnet::Draw(CounterRng& rng, std::uint32_t topic, Lengths lengths,
                           std::vector<std::int64_t>& ids) const {
  ids.clear();
  const std::uint32_t words = lengths.least + rng.Below(lengths.most - lengths.least + 1);
  const std::uint32_t of_topic = (options_.dictionary - topic - 1) / options_.topics + 1;
  for (std::uint32_t i = 0; i < words; ++i) {
    const bool on_topic = rng.Below(4) != 0;
    ids.push_back(on_topic
                      ? std::int64_t{topic} + std::int64_t{options_.topics} * rng.Below(of_topic)
                      : std::int64_t{rng.Below(options_.dictionary)});
  }
}

Status SyntheticSimnet::Read(std::uint64_t index, SimnetSample& sample) const {
  if (index >= options_.size) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("sample {} of {}", index, options_.size));
  }
  constexpr Lengths kQuery{2, 6}, kTitle{5, 15};
  CounterRng rng(options_.seed, Purpose::kSynthetic, options_.first + index, 1);
  const std::uint32_t topic = rng.Below(options_.topics);
  const std::uint32_t other = (topic + 1 + rng.Below(options_.topics - 1)) % options_.topics;
  Draw(rng, topic, kQuery, sample.query);
  Draw(rng, topic, kTitle, sample.positive);
  Draw(rng, other, kTitle, sample.negative);
  return {};
}

std::string SyntheticSimnet::Fingerprint() const {
  return fmt::format("synthetic-simnet:1 seed:{} samples:{}+{} dictionary:{} topics:{}",
                     options_.seed, options_.first, options_.size, options_.dictionary,
                     options_.topics);
}

}  // namespace paceline::data

#include "data/synthetic_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace paceline::data {

namespace {

// Shares of the words of a sentence, out of 16; the rest is background.
constexpr std::uint32_t kMemberShare = 2, kTopicShare = 4, kMarkerShare = 4, kAll = 16;

}  // namespace

SyntheticText::SyntheticText(const SyntheticTextOptions& options) : options_(options) {
  PACELINE_CHECK(options.background > 0, "sentences need background words");
  double sum = 0;
  for (std::uint32_t rank = 1; rank <= options_.background; ++rank) sum += 1.0 / rank;
  double below = 0;
  for (std::uint32_t rank = 1; rank <= options_.background; ++rank) {
    below += 1.0 / rank / sum;
    cumulative_.push_back(static_cast<float>(below));
  }
  cumulative_.back() = 1;  // whatever was rounded away
  CountExpected();
}

// Ids: background, then markers of both sides, then for each pair its two words and its topics.
std::int32_t SyntheticText::Marker(std::uint32_t side, std::uint32_t number) const {
  return static_cast<std::int32_t>(options_.background + side * kMarkers + number);
}

std::int32_t SyntheticText::Member(std::uint32_t pair, std::uint32_t side) const {
  return static_cast<std::int32_t>(options_.background + 2 * kMarkers + pair * (2 + kTopics) +
                                   side);
}

std::int32_t SyntheticText::Topic(std::uint32_t pair, std::uint32_t number) const {
  return Member(pair, 0) + 2 + static_cast<std::int32_t>(number);
}

std::int32_t SyntheticText::Background(float uniform) const {
  const auto found = std::ranges::upper_bound(cumulative_, uniform);
  return static_cast<std::int32_t>(found - cumulative_.begin());
}

void SyntheticText::CountExpected() {
  const double words =
      static_cast<double>(options_.sentences) * static_cast<double>(options_.sentence_words);
  const double planted = options_.pairs == 0 ? 0 : words / kAll;
  const double background = words - planted * (kMemberShare + kTopicShare + kMarkerShare);
  const auto rounded = [](double count) { return static_cast<std::uint64_t>(std::llround(count)); };
  float below = 0;
  for (const float up_to : cumulative_) {
    counts_.push_back(rounded(background * static_cast<double>(up_to - below)));
    below = up_to;
  }
  if (options_.pairs == 0) return;
  counts_.resize(static_cast<std::size_t>(Member(options_.pairs, 0)));
  const auto set = [&](std::int32_t word, double count) {
    counts_[static_cast<std::size_t>(word)] = rounded(count);
  };
  for (std::uint32_t side = 0; side < 2; ++side) {
    for (std::uint32_t m = 0; m < kMarkers; ++m) {
      set(Marker(side, m), planted * kMarkerShare / (2 * kMarkers));
    }
    for (std::uint32_t p = 0; p < options_.pairs; ++p) {
      set(Member(p, side), planted * kMemberShare / (2 * options_.pairs));
    }
  }
  for (std::uint32_t p = 0; p < options_.pairs; ++p) {
    for (std::uint32_t t = 0; t < kTopics; ++t) {
      set(Topic(p, t), planted * kTopicShare / (options_.pairs * kTopics));
    }
  }
}

Status SyntheticText::Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const {
  if (sentence >= options_.sentences) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("sentence {} of {}", sentence, options_.sentences));
  }
  CounterRng rng(options_.seed, Purpose::kSynthetic, sentence, 0);
  const std::uint32_t pair = options_.pairs == 0 ? 0 : rng.Below(options_.pairs);
  const std::uint32_t side = rng.Below(2);
  words.clear();
  for (std::uint32_t i = 0; i < options_.sentence_words; ++i) {
    const std::uint32_t kind = options_.pairs == 0 ? kAll : rng.Below(kAll);
    if (kind < kMemberShare) {
      words.push_back(Member(pair, side));
    } else if (kind < kMemberShare + kTopicShare) {
      words.push_back(Topic(pair, rng.Below(kTopics)));
    } else if (kind < kMemberShare + kTopicShare + kMarkerShare) {
      words.push_back(Marker(side, rng.Below(kMarkers)));
    } else {
      words.push_back(Background(rng.Uniform()));
    }
  }
  return {};
}

std::vector<AnalogyQuestion> SyntheticText::Questions() const {
  std::vector<AnalogyQuestion> questions;
  for (std::uint32_t i = 0; i < options_.pairs; ++i) {
    for (std::uint32_t j = 0; j < options_.pairs; ++j) {
      if (i == j) continue;
      questions.push_back({Member(i, 0), Member(i, 1), Member(j, 0), Member(j, 1)});
    }
  }
  return questions;
}

std::vector<SimilarityPair> SyntheticText::Similarities() const {
  std::vector<SimilarityPair> pairs;
  for (std::uint32_t i = 0; i < options_.pairs; ++i) {
    const std::uint32_t next = (i + 1) % options_.pairs;
    pairs.push_back({Member(i, 0), Member(i, 1), 3});
    if (next == i) continue;
    pairs.push_back({Member(i, 0), Member(next, 0), 2});
    pairs.push_back({Member(i, 1), Member(next, 1), 2});
    pairs.push_back({Member(i, 0), Member(next, 1), 1});
    pairs.push_back({Member(i, 0), static_cast<std::int32_t>(i % options_.background), 0});
  }
  return pairs;
}

std::string SyntheticText::Fingerprint() const {
  return fmt::format("synthetic-text:1 seed:{} sentences:{}x{} background:{} pairs:{}",
                     options_.seed, options_.sentences, options_.sentence_words,
                     options_.background, options_.pairs);
}

}  // namespace paceline::data

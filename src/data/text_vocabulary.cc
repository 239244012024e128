#include "data/text_vocabulary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/rng.h"

namespace paceline::data {

void NormaliseLine(std::string& line) {
  std::size_t end = 0;
  bool separate = false;
  for (const char c : line) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower == ' ' || lower == '\t' || lower == '\r' || lower == '\n') {
      separate = end > 0;
    } else if (lower >= 'a' && lower <= 'z') {
      // Never longer than what was read: a blank takes the place of the white space before.
      if (separate) line[end++] = ' ';
      separate = false;
      line[end++] = lower;
    }
  }
  line.resize(end);
}

Vocabulary::Vocabulary(const WordCounts& counts, std::uint64_t min_count) {
  std::vector<std::pair<std::string_view, std::uint64_t>> frequent;
  std::uint64_t rare = 0;
  for (const auto& [word, count] : counts) {
    if (count > min_count) {
      frequent.emplace_back(word, count);
    } else {
      rare += count;
    }
  }
  std::ranges::sort(frequent, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  words_.emplace_back(kUnknownWord);
  counts_.push_back(rare);
  for (const auto& [word, count] : frequent) {
    ids_.emplace(word, static_cast<std::int32_t>(words_.size()));
    words_.emplace_back(word);
    counts_.push_back(count);
  }
}

std::int32_t Vocabulary::Find(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnknown : found->second;
}

// FNV-1a, 64 bits, of the words with a blank after each.
std::uint64_t Vocabulary::Hash() const {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto add = [&](char c) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  };
  for (const std::string& word : words_) {
    std::ranges::for_each(word, add);
    add(' ');
  }
  return hash;
}

Status Vocabulary::Save(const std::filesystem::path& path) const {
  std::ofstream file(path);
  for (std::size_t id = 0; id < words_.size(); ++id) {
    file << words_[id] << ' ' << counts_[id] << '\n';
  }
  file.close();
  if (!file) {
    return Status::Error(Code::kDisk, fmt::format("{}: cannot be written", path.string()));
  }
  return {};
}

Status Vocabulary::Add(std::string_view word, std::uint64_t count) {
  if (words_.size() == 1 && counts_.empty()) {
    if (word != kUnknownWord) {
      return Status::Error(Code::kBadData, fmt::format("the first word is not {}", kUnknownWord));
    }
    counts_.push_back(count);
    return {};
  }
  if (!std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; })) {
    return Status::Error(Code::kBadData, "a word has other letters than a to z");
  }
  if (words_.size() > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    return Status::Error(Code::kBadData, "more words than ids");
  }
  if (!ids_.emplace(word, static_cast<std::int32_t>(words_.size())).second) {
    return Status::Error(Code::kBadData, fmt::format("\"{}\" is there twice", word));
  }
  words_.emplace_back(word);
  counts_.push_back(count);
  return {};
}

Result<Vocabulary> Vocabulary::Load(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    return Status::Error(Code::kBadData, fmt::format("{}: cannot be opened", path.string()));
  }
  Vocabulary vocabulary;
  vocabulary.counts_.clear();
  std::uint64_t offset = 0;
  for (std::string line; std::getline(file, line); offset += line.size() + 1) {
    const std::string place = fmt::format("{}: byte offset {}", path.string(), offset);
    const std::size_t blank = line.find(' ');
    const char* end = line.data() + line.size();
    std::uint64_t count = 0;
    if (blank == std::string::npos || blank == 0 ||
        std::from_chars(line.data() + blank + 1, end, count) !=
            std::from_chars_result{end, std::errc{}}) {
      return Status::Error(Code::kBadData, fmt::format("{}: not \"word count\"", place));
    }
    PACELINE_TRY(vocabulary.Add(std::string_view(line).substr(0, blank), count).Wrap(place));
  }
  if (vocabulary.counts_.empty()) {
    return Status::Error(Code::kBadData, fmt::format("{}: no word", path.string()));
  }
  return vocabulary;
}

Subsampler::Subsampler(std::uint64_t seed, double threshold,
                       const std::vector<std::uint64_t>& counts)
    : seed_(seed) {
  constexpr std::uint32_t kAlways = std::numeric_limits<std::uint32_t>::max();
  const auto total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  for (const std::uint64_t count : counts) {
    const double share = static_cast<double>(count) / (threshold * total);  // c / (t T)
    const double keep = share > 0 ? (std::sqrt(share) + 1) / share : 1;
    const bool always = threshold <= 0 || keep >= 1;
    keep_below_.push_back(always ? kAlways : static_cast<std::uint32_t>(keep * kAlways));
  }
}

double Subsampler::KeepProbability(std::int32_t word) const {
  return (keep_below_[static_cast<std::size_t>(word)] + 1.0) * 0x1p-32;
}

void Subsampler::Apply(std::uint64_t epoch, std::uint64_t sentence,
                       std::vector<std::int32_t>& words) const {
  CounterRng rng(seed_, Purpose::kSubsample, epoch, sentence);
  std::erase_if(words, [&](std::int32_t word) {
    return rng.Next() > keep_below_[static_cast<std::size_t>(word)];
  });
}

}  // namespace paceline::data

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "data/simnet_source.h"
#include "data/text_lines.h"

namespace paceline::data {

// One sample per line: ids of the query, of the title that fits and of the one that does not,
// separated by tabs; decimal ids separated by single blanks, at least one in each:
//
//   17 4 1451593<TAB>4 99<TAB>12 8 3
Status ParseSimnetLine(std::string_view line, std::uint64_t dictionary, SimnetSample& sample);

// Samples in that format in a file or in those of a folder. Immutable, thread-safe; owns the open
// files.
class SimnetText final : public SimnetSource {
 public:
  // Every line is checked here, so that bad data is found before training.
  static Result<std::unique_ptr<SimnetText>> Open(const std::filesystem::path& path,
                                                  std::uint64_t dictionary);

  std::uint64_t size() const override { return lines_.size(); }
  std::uint64_t dictionary() const override { return dictionary_; }
  Status Read(std::uint64_t index, SimnetSample& sample) const override;
  std::string Fingerprint() const override;

 private:
  explicit SimnetText(std::uint64_t dictionary) : dictionary_(dictionary) {}

  std::uint64_t dictionary_;
  TextLines lines_;
};

}  // namespace paceline::data

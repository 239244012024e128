#include "data/parallel_text.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "data/fnv.h"
#include "data/piece_lengths.h"
#include "data/text_check.h"

namespace paceline::data {

namespace {

Status SameLines(const TextLines& source, const TextLines& target) {
  const auto sources = source.Files(), targets = target.Files();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].count == targets[i].count) continue;
    const bool source_longer = sources[i].count > targets[i].count;
    const TextLines& longer = source_longer ? source : target;
    const std::uint64_t first = source_longer ? sources[i].first : targets[i].first;
    const std::uint64_t both = std::min(sources[i].count, targets[i].count);
    return Status::Error(Code::kBadData,
                         fmt::format("{} has {} lines and {} has {}; {} has no counterpart",
                                     sources[i].path, sources[i].count, targets[i].path,
                                     targets[i].count, longer.Describe(first + both)));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const ParallelLines>> ParallelLines::Open(const Files& files,
                                                                 BadRecord policy) {
  auto lines = std::make_shared<ParallelLines>();
  const auto open = [&](const std::vector<std::filesystem::path>& paths) {
    std::uint64_t number = 0;
    return TextLines::Open(paths, [&, number](std::string& line) mutable -> Status {
      Status good = CheckSentence(line);
      if (!good.ok() && policy == BadRecord::kFail) return good;
      if (!good.ok()) lines->bad_.push_back(number);
      ++number;
      return {};
    });
  };
  PACELINE_ASSIGN(lines->source_, open(files.source));
  PACELINE_ASSIGN(lines->target_, open(files.target));
  PACELINE_TRY(SameLines(lines->source_, lines->target_));
  std::ranges::sort(lines->bad_);
  lines->bad_.erase(std::unique(lines->bad_.begin(), lines->bad_.end()), lines->bad_.end());
  return std::shared_ptr<const ParallelLines>(std::move(lines));
}

Result<std::unique_ptr<ParallelText>> ParallelText::Open(std::shared_ptr<const ParallelLines> lines,
                                                         const ParallelTextOptions& options) {
  std::unique_ptr<ParallelText> text(new ParallelText(std::move(lines), options));
  PACELINE_TRY(text->Measure());
  if (text->size() > 0) return text;
  return Status::Error(Code::kBadData, fmt::format("{}: no usable sentence",
                                                   text->lines_->source().Files().front().path));
}

Status ParallelText::TooLong(const TextLines& text, std::uint64_t line, std::size_t pieces) const {
  return Status::Error(Code::kBadData,
                       fmt::format("{}: {} pieces; the model takes at most {}", text.Describe(line),
                                   pieces, options_.max_length));
}

Status ParallelText::Measure() {
  const auto measure = [&](const TextLines& text) {
    return MeasureLines(text, *options_.tokenizer, options_.cache);
  };
  PACELINE_ASSIGN(const MeasuredLines sources, measure(lines_->source()));
  PACELINE_ASSIGN(const MeasuredLines targets, measure(lines_->target()));
  for (const auto* warnings : {&sources.warnings, &targets.warnings}) {
    warnings_.insert(warnings_.end(), warnings->begin(), warnings->end());
  }
  return Choose(sources.by_line, targets.by_line);
}

Status ParallelText::Choose(std::span<const std::uint32_t> sources,
                            std::span<const std::uint32_t> targets) {
  auto bad = lines_->bad().begin();
  for (std::size_t line = 0; line < sources.size(); ++line) {
    const bool known_bad = bad != lines_->bad().end() && *bad == line;
    if (known_bad) ++bad;
    const bool source_too_long = sources[line] > options_.max_length;
    const bool too_long = source_too_long || targets[line] + 1 > options_.max_length;
    if (!known_bad && too_long && options_.policy == BadRecord::kFail) {
      return source_too_long ? TooLong(lines_->source(), line, sources[line])
                             : TooLong(lines_->target(), line, std::size_t{targets[line]} + 1);
    }
    if (known_bad || too_long) continue;
    lengths_.push_back({sources[line], targets[line]});
    numbers_.push_back(line);
  }
  if (numbers_.size() == sources.size()) numbers_ = {};
  return {};
}

Status ParallelText::Read(std::uint64_t index, SentencePair& pair) const {
  if (index >= size()) {
    return Status::Error(Code::kInvalidArgument, fmt::format("pair {} of {}", index, size()));
  }
  const std::uint64_t line = numbers_.empty() ? index : numbers_[index];
  const auto encode = [&](const TextLines& text, std::uint32_t length,
                          std::vector<std::int32_t>& ids) -> Status {
    std::string words;
    PACELINE_TRY(text.Read(line, words));
    ids.clear();
    options_.tokenizer->Encode(WithoutReturn(words), ids);
    if (ids.size() == length) return {};
    return Status::Error(Code::kBadData,
                         fmt::format("{}: changed since it was opened", text.Describe(line)));
  };
  PACELINE_TRY(encode(lines_->source(), lengths_[index].source, pair.source));
  return encode(lines_->target(), lengths_[index].target, pair.target);
}

std::string ParallelText::Fingerprint() const {
  const std::uint64_t vocabulary = Fnv(options_.tokenizer->ToFile("").ToText());
  return fmt::format("translation {}-> {}vocabulary:{:016x} pairs:{}",
                     lines_->source().fingerprint(), lines_->target().fingerprint(), vocabulary,
                     size());
}

}  // namespace paceline::data

#include "data/learnt_vocabulary.h"

#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/byte_pairs.h"
#include "data/fnv.h"
#include "data/text_check.h"
#include "data/text_vocabulary.h"

namespace paceline::data {

namespace {

using TokenizerResult = Result<std::shared_ptr<const Tokenizer>>;

template <typename T>
TokenizerResult Shared(Result<std::unique_ptr<T>> made) {
  if (!made.ok()) return made.status();
  return std::shared_ptr<const Tokenizer>(std::move(*made));
}

std::string_view KindName(PieceKind kind) {
  return kind == PieceKind::kBytePairs ? BytePairs::kKind : WordPieces::kKind;
}

TokenizerResult Load(PieceKind kind, const std::filesystem::path& path,
                     const std::string* learnt_from) {
  PACELINE_ASSIGN(const VocabularyFile file, VocabularyFile::Load(path));
  if (learnt_from != nullptr && file.learnt_from != *learnt_from) {
    return Status::Error(Code::kBadData,
                         fmt::format("{}: line 4: learnt from something else", path.string()));
  }
  TokenizerResult made = kind == PieceKind::kBytePairs ? Shared(BytePairs::FromFile(file))
                                                       : Shared(WordPieces::FromFile(file));
  return made.ok() ? made : made.status().Wrap(path.string());
}

// Everything that decides what is learnt; the leading number grows when the way of learning
// changes.
std::string LearntFrom(const VocabularyOptions& options, std::span<const TextLines* const> texts) {
  std::string from = fmt::format("1 {} {} {} ", KindName(options.kind), options.pieces,
                                 options.letters == LetterCase::kLower ? "lower" : "keep");
  for (const TextLines* text : texts) from += text->fingerprint();
  return fmt::format("{:016x}", Fnv(from));
}

Result<WordCounts> CountWords(const VocabularyOptions& options,
                              std::span<const TextLines* const> texts) {
  WordCounts counts;
  const auto add = [&counts](std::string_view word) {
    auto found = counts.find(word);
    if (found == counts.end()) found = counts.emplace(word, 0).first;
    ++found->second;
  };
  for (const TextLines* text : texts) {
    PACELINE_TRY(
        text->ForEach(0, text->size(), [&](std::uint64_t, std::string_view line) -> Status {
          line = WithoutReturn(line);
          if (options.kind == PieceKind::kBytePairs) {
            SplitSegments(line, add);
          } else {
            SplitWords(line, options.letters, add);
          }
          return {};
        }));
  }
  return counts;
}

Result<OpenedVocabulary> Learn(const VocabularyOptions& options,
                               std::span<const TextLines* const> texts,
                               const std::filesystem::path& keep_as) {
  PACELINE_ASSIGN(const WordCounts counts, CountWords(options, texts));
  OpenedVocabulary opened;
  PACELINE_ASSIGN(opened.tokenizer,
                  options.kind == PieceKind::kBytePairs
                      ? Shared(BytePairs::Learn(counts, options.pieces))
                      : Shared(WordPieces::Learn(counts, options.pieces, options.letters)));
  std::string note = fmt::format("learnt {} {} from {} different words", opened.tokenizer->size(),
                                 KindName(options.kind), counts.size());
  const Status kept = opened.tokenizer->ToFile(LearntFrom(options, texts)).Save(keep_as);
  if (kept.ok()) {
    note += ", kept in " + keep_as.string();
  } else {
    opened.warnings.push_back(
        fmt::format("the vocabulary is learnt anew at every start: {}", kept.message()));
  }
  opened.notes.push_back(std::move(note));
  return opened;
}

}  // namespace

Result<OpenedVocabulary> OpenVocabulary(const VocabularyOptions& options,
                                        std::span<const TextLines* const> texts) {
  OpenedVocabulary opened;
  if (!options.file.empty()) {
    PACELINE_ASSIGN(opened.tokenizer, Load(options.kind, options.file, nullptr));
    if (opened.tokenizer->size() <= options.pieces) return opened;
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("--vocab {}: {} pieces; the model takes at most {}", options.file.string(),
                    opened.tokenizer->size(), options.pieces));
  }
  const std::string learnt_from = LearntFrom(options, texts);
  const std::filesystem::path path =
      options.cache /
      fmt::format("{}-{}-{}.vocab", KindName(options.kind), options.pieces, learnt_from);
  std::error_code ignored;
  std::string damage;
  if (std::filesystem::exists(path, ignored)) {
    TokenizerResult known = Load(options.kind, path, &learnt_from);
    if (known.ok()) {
      opened.tokenizer = std::move(*known);
      return opened;
    }
    damage = known.status().message();
  }
  PACELINE_ASSIGN(opened, Learn(options, texts, path));
  if (!damage.empty()) opened.warnings.push_back(damage + "; learnt anew");
  return opened;
}

}  // namespace paceline::data

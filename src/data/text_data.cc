#include "data/text_data.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/learnt_vocabulary.h"
#include "data/masked_batches.h"
#include "data/parallel_text.h"
#include "data/piece_lengths.h"
#include "data/plain_documents.h"
#include "data/text_lines.h"
#include "data/translation_batches.h"

namespace paceline::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheFolder = ".paceline";  // hidden, so that it is not taken for data

struct Languages {
  std::string source, target;
};

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<Languages> ChooseLanguages(const TextDataOptions& options) {
  const auto wrong = [](std::string text) {
    return Status::Error(Code::kInvalidArgument, std::move(text));
  };
  if (!options.languages.empty()) {
    const std::size_t dash = options.languages.find('-');
    if (dash == 0 || dash == std::string::npos || dash + 1 == options.languages.size() ||
        options.languages.find('/') != std::string::npos) {
      return wrong(fmt::format("--languages is '{}'; it takes two endings of files, e.g. en-de",
                               options.languages));
    }
    return Languages{options.languages.substr(0, dash), options.languages.substr(dash + 1)};
  }
  if (Exists(options.data / "train.src")) return Languages{"src", "tgt"};
  PACELINE_ASSIGN(const auto files, FilesOf(options.data));
  std::string found;
  for (const fs::path& file : files) {
    if (file.stem() == "train") found += " " + file.filename().string();
  }
  if (found.empty()) {
    return Status::Error(
        Code::kBadData, fmt::format("{}: no files train.SRC and train.TGT", options.data.string()));
  }
  return wrong(fmt::format("from which language to which? --languages, e.g. en-de; {} has{}",
                           options.data.string(), found));
}

Result<ParallelLines::Files> HeldOutFiles(const fs::path& folder, const Languages& languages) {
  ParallelLines::Files found;
  PACELINE_ASSIGN(const auto files, FilesOf(folder));
  const bool has_valid = Exists(folder / ("valid." + languages.source));
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    const bool wanted =
        has_valid ? name == "valid." + languages.source
                  : name.starts_with("newstest") && name.ends_with("." + languages.source);
    if (!wanted) continue;
    found.source.push_back(file);
    found.target.push_back(
        folder / (name.substr(0, name.size() - languages.source.size()) + languages.target));
  }
  if (!found.source.empty()) return found;
  return Status::Error(Code::kBadData,
                       fmt::format("{}: no valid.{} and no newstest*.{}", folder.string(),
                                   languages.source, languages.source));
}

Status TakeVocabulary(const VocabularyOptions& options, std::span<const TextLines* const> texts,
                      TextData& data) {
  PACELINE_ASSIGN(OpenedVocabulary opened, OpenVocabulary(options, texts));
  data.tokenizer = std::move(opened.tokenizer);
  data.notes = std::move(opened.notes);
  data.warnings = std::move(opened.warnings);
  return {};
}

// A folder that cannot be written to is warned of once.
void AddWarnings(const std::vector<std::string>& warnings, TextData& data) {
  for (const std::string& warning : warnings) {
    if (std::ranges::find(data.warnings, warning) != data.warnings.end()) continue;
    data.warnings.push_back(warning);
  }
}

void WarnOfBadRecords(const fs::path& place, TextData& data) {
  const std::uint64_t bad = data.train->BadRecords() + data.held_out->BadRecords();
  if (bad == 0) return;
  data.warnings.push_back(fmt::format("{}: {} bad lines left out", place.string(), bad));
}

Result<std::shared_ptr<const PlainDocuments::Pieces>> MeasureDocuments(
    std::shared_ptr<const DocumentLines> text, const fs::path& cache, TextData& data) {
  PACELINE_ASSIGN(MeasuredLines measured, MeasureLines(text->lines(), *data.tokenizer, cache));
  AddWarnings(measured.warnings, data);
  return std::make_shared<const PlainDocuments::Pieces>(
      PlainDocuments::Pieces{std::move(text), data.tokenizer, std::move(measured.by_line)});
}

struct DocumentFiles {
  std::vector<fs::path> train, held_out;
};

Result<DocumentFiles> ChooseDocuments(const fs::path& data) {
  std::error_code ignored;
  if (!fs::is_directory(data, ignored)) return DocumentFiles{.train = {data}};
  PACELINE_ASSIGN(const auto files, FilesOf(data));
  DocumentFiles chosen;
  for (const fs::path& file : files) {
    const bool held_out = file.filename().string().starts_with("valid");
    (held_out ? chosen.held_out : chosen.train).push_back(file);
  }
  if (!chosen.train.empty()) return chosen;
  return Status::Error(Code::kBadData, fmt::format("{}: no text to train on", data.string()));
}

}  // namespace

Result<TextData> OpenTranslationData(const TextDataOptions& options) {
  if (options.batch_tokens != 0 && options.batch_tokens < options.max_length) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--batch-tokens {}: a sentence alone may have {}",
                                     options.batch_tokens, options.max_length));
  }
  PACELINE_ASSIGN(const Languages languages, ChooseLanguages(options));
  PACELINE_ASSIGN(const auto held_out_files, HeldOutFiles(options.data, languages));
  PACELINE_ASSIGN(const auto train_lines,
                  ParallelLines::Open({{options.data / ("train." + languages.source)},
                                       {options.data / ("train." + languages.target)}},
                                      options.policy));
  PACELINE_ASSIGN(const auto held_out_lines, ParallelLines::Open(held_out_files, options.policy));
  TextData data;
  const std::array<const TextLines*, 2> texts{&train_lines->source(), &train_lines->target()};
  PACELINE_TRY(TakeVocabulary({.kind = PieceKind::kBytePairs,
                               .pieces = options.pieces,
                               .file = options.vocab,
                               .cache = options.data / kCacheFolder},
                              texts, data));
  const ParallelTextOptions text_options{.tokenizer = data.tokenizer,
                                         .max_length = options.max_length,
                                         .policy = options.policy,
                                         .cache = options.data / kCacheFolder};
  PACELINE_ASSIGN(std::shared_ptr<const ParallelText> train,
                  ParallelText::Open(train_lines, text_options));
  PACELINE_ASSIGN(std::shared_ptr<const ParallelText> held_out,
                  ParallelText::Open(held_out_lines, text_options));
  AddWarnings(train->warnings(), data);
  AddWarnings(held_out->warnings(), data);
  data.train = options.batch_tokens == 0
                   ? std::make_unique<TranslationBatches>(std::move(train))
                   : std::make_unique<TranslationBatches>(
                         std::move(train),
                         PackOptions{.tokens = options.batch_tokens, .seed = options.seed});
  data.held_out = std::make_unique<TranslationBatches>(std::move(held_out));
  WarnOfBadRecords(options.data, data);
  return data;
}

Result<TextData> OpenMaskedData(const TextDataOptions& options) {
  PACELINE_ASSIGN(const DocumentFiles files, ChooseDocuments(options.data));
  PACELINE_ASSIGN(const auto train_text, DocumentLines::Open(files.train, options.policy));
  const bool separate = !files.held_out.empty();
  auto held_out_text = train_text;
  if (separate) {
    PACELINE_ASSIGN(held_out_text, DocumentLines::Open(files.held_out, options.policy));
  }
  TextData data;
  const std::array<const TextLines*, 1> texts{&train_text->lines()};
  std::error_code ignored;
  const fs::path cache =
      (fs::is_directory(options.data, ignored) ? options.data : options.data.parent_path()) /
      kCacheFolder;
  PACELINE_TRY(TakeVocabulary({.kind = PieceKind::kWordPieces,
                               .pieces = options.pieces,
                               .letters = options.letters,
                               .file = options.vocab,
                               .cache = cache},
                              texts, data));
  using Part = PlainDocuments::Part;
  const MaskedBatches::Options batch_options{.max_length =
                                                 static_cast<std::uint32_t>(options.max_length)};
  PACELINE_ASSIGN(const auto train_pieces, MeasureDocuments(train_text, cache, data));
  auto held_out_pieces = train_pieces;
  if (separate) {
    PACELINE_ASSIGN(held_out_pieces, MeasureDocuments(held_out_text, cache, data));
  }
  const auto open = [&](const std::shared_ptr<const PlainDocuments::Pieces>& pieces, Part part) {
    return MaskedBatches::Create(std::make_shared<PlainDocuments>(pieces, part), batch_options);
  };
  auto train = open(train_pieces, separate ? Part::kAll : Part::kWithoutHeldOut);
  if (!train.ok()) return train.status().Wrap(options.data.string());
  auto held_out = open(held_out_pieces, separate ? Part::kAll : Part::kHeldOut);
  if (!held_out.ok()) return held_out.status().Wrap(options.data.string() + ": held out");
  data.train = std::move(*train);
  data.held_out = std::move(*held_out);
  WarnOfBadRecords(options.data, data);
  return data;
}

}  // namespace paceline::data

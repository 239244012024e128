#include "train/text_source.h"

#include <utility>

#include "data/masked_batches.h"
#include "data/synthetic_documents.h"
#include "data/synthetic_translation.h"
#include "data/text_data.h"
#include "data/translation_batches.h"

namespace paceline::train {

namespace {

data::TextDataOptions OptionsOf(const job::TrainConfig& config, const model::ModelCard& card) {
  return {.data = config.data,
          .vocab = config.vocab,
          .languages = config.languages,
          .batch_tokens = static_cast<std::size_t>(config.batch_tokens),
          .letters = config.lower_case ? data::LetterCase::kLower : data::LetterCase::kKeep,
          .policy = config.bad_record == "skip" ? data::BadRecord::kSkip : data::BadRecord::kFail,
          .seed = config.seed,
          .pieces = static_cast<std::size_t>(card.vocabulary),
          .max_length = static_cast<std::size_t>(card.max_length)};
}

DataSource FromText(data::TextData data) {
  return {.train = std::move(data.train),
          .held_out = std::move(data.held_out),
          .tokenizer = std::move(data.tokenizer),
          .notes = std::move(data.notes),
          .warnings = std::move(data.warnings)};
}

data::SyntheticTranslationOptions::Task TaskOf(const std::string& data) {
  using Task = data::SyntheticTranslationOptions::Task;
  if (data == "synthetic:copy") return Task::kCopy;
  return data == "synthetic:reverse" ? Task::kReverse : Task::kGrammar;
}

}  // namespace

Result<DataSource> OpenTranslation(const job::TrainConfig& config, const model::ModelCard& card) {
  if (!config.Synthetic()) {
    PACELINE_ASSIGN(data::TextData text, data::OpenTranslationData(OptionsOf(config, card)));
    return FromText(std::move(text));
  }
  data::SyntheticTranslationOptions options{
      .seed = config.seed,
      .size = config.train_samples,
      .task = TaskOf(config.data),
      .vocabulary = static_cast<std::uint32_t>(card.vocabulary),
      .max_length = static_cast<std::uint32_t>(card.max_length)};
  PACELINE_ASSIGN(data::SyntheticTranslation train, data::SyntheticTranslation::Create(options));
  options.size = config.SyntheticHeldOut();
  options.split = data::Split::kTest;
  PACELINE_ASSIGN(data::SyntheticTranslation test, data::SyntheticTranslation::Create(options));
  auto pairs = std::make_shared<data::SyntheticTranslation>(std::move(train));
  DataSource source;
  if (config.batch_tokens == 0) {
    source.train = std::make_unique<data::TranslationBatches>(std::move(pairs));
  } else {
    source.train = std::make_unique<data::TranslationBatches>(
        std::move(pairs), data::PackOptions{.tokens = static_cast<std::size_t>(config.batch_tokens),
                                            .seed = config.seed});
  }
  source.held_out = std::make_unique<data::TranslationBatches>(
      std::make_shared<data::SyntheticTranslation>(std::move(test)));
  return source;
}

Result<DataSource> OpenMaskedLanguage(const job::TrainConfig& config,
                                      const model::ModelCard& card) {
  if (!config.Synthetic()) {
    PACELINE_ASSIGN(data::TextData text, data::OpenMaskedData(OptionsOf(config, card)));
    return FromText(std::move(text));
  }
  data::SyntheticDocumentsOptions options{
      .seed = config.seed,
      .documents = config.train_samples,
      .vocabulary = static_cast<std::uint32_t>(card.vocabulary),
      .max_length = static_cast<std::uint32_t>(card.max_length)};
  const auto open = [&]() -> Result<std::unique_ptr<data::MaskedBatches>> {
    PACELINE_ASSIGN(data::SyntheticDocuments made, data::SyntheticDocuments::Create(options));
    return data::MaskedBatches::Create(std::make_shared<data::SyntheticDocuments>(std::move(made)),
                                       {.max_length = options.max_length});
  };
  DataSource source;
  PACELINE_ASSIGN(source.train, open());
  options.documents = config.SyntheticHeldOut();
  options.split = data::Split::kTest;
  PACELINE_ASSIGN(source.held_out, open());
  return source;
}

}  // namespace paceline::train

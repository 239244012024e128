#include "fused/model_factory.h"

#include <utility>

#include <fmt/format.h>

#include "data/criteo.h"
#include "data/simnet_text.h"
#include "data/synthetic_ctr.h"
#include "data/synthetic_simnet.h"
#include "data/text_corpus.h"
#include "data/word_questions.h"
#include "fused/held_out.h"
#include "model/catalog.h"
#include "sparse/ctr_dnn.h"
#include "sparse/simnet_bow.h"
#include "sparse/word2vec.h"

namespace paceline::fused {

namespace {

using job::TrainConfig;

// Enough for the third digit of an AUC.
constexpr std::uint64_t kHeldOutClicks = 20'000;
constexpr std::uint64_t kHeldOutQueries = 2'000;

bool Small(const TrainConfig& config) { return config.model.ends_with("-small"); }

struct Clicks {
  std::shared_ptr<const data::CtrDataset> train, held_out;
};

Clicks SyntheticClicks(const TrainConfig& config, ModelWithData& made) {
  const std::uint64_t held_out = config.eval_samples == 0 ? kHeldOutClicks : config.eval_samples;
  data::SyntheticCtrOptions options{.seed = config.seed, .size = config.train_samples};
  if (Small(config)) options.ids = data::kSyntheticCtrFewIds;
  const auto train = std::make_shared<data::SyntheticCtr>(options);
  options.size = held_out;
  options.split = data::Split::kTest;
  const auto test = std::make_shared<data::SyntheticCtr>(options);
  made.best_auc = test->BestAuc(held_out);
  return {train, test};
}

Result<Clicks> ClicksOfFiles(const TrainConfig& config, std::uint64_t rows, ModelWithData& made) {
  const auto policy = config.bad_record == "skip" ? data::BadRecord::kSkip : data::BadRecord::kFail;
  PACELINE_ASSIGN(auto opened,
                  data::Criteo::Open(config.data, policy, static_cast<std::uint32_t>(rows)));
  made.warnings = opened->warnings();
  made.bad_records = opened->BadRecords();
  const std::shared_ptr<const data::CtrDataset> all = std::move(opened);
  PACELINE_ASSIGN(const std::uint64_t held_out, HeldOutSamples(all->size(), config.eval_samples));
  const std::uint64_t train = all->size() - held_out;
  return Clicks{PartOf(all, {0, train}), PartOf(all, {train, held_out})};
}

Result<ModelWithData> MakeClicks(const TrainConfig& config) {
  ModelWithData made;
  PACELINE_ASSIGN(const sparse::CtrDnnShape shape, sparse::FindCtrDnnShape(config.model));
  Clicks clicks;
  if (config.Synthetic()) {
    clicks = SyntheticClicks(config, made);
  } else {
    PACELINE_ASSIGN(clicks, ClicksOfFiles(config, shape.rows, made));
  }
  made.fingerprint = clicks.train->Fingerprint();
  const sparse::CtrDnn::Options options{.shape = shape, .order_seed = config.seed};
  PACELINE_ASSIGN(made.model, sparse::CtrDnn::Create(options, clicks.train));
  if (clicks.held_out->size() == 0) return made;
  PACELINE_ASSIGN(made.held_out, sparse::CtrDnn::Create(options, clicks.held_out));
  return made;
}

struct Titles {
  std::shared_ptr<const data::SimnetSource> train, held_out;
};

Titles SyntheticTitles(const TrainConfig& config) {
  data::SyntheticSimnetOptions options{.seed = config.seed, .size = config.train_samples};
  if (Small(config)) {
    options.dictionary = 500;
    options.topics = 10;
  }
  auto train = std::make_shared<data::SyntheticSimnet>(options);
  options.first = options.size;
  options.size = config.eval_samples == 0 ? kHeldOutQueries : config.eval_samples;
  return {std::move(train), std::make_shared<data::SyntheticSimnet>(options)};
}

Result<Titles> TitlesOfFiles(const TrainConfig& config) {
  PACELINE_ASSIGN(auto opened, data::SimnetText::Open(config.data, sparse::kSimnetDictionary));
  const std::shared_ptr<const data::SimnetSource> all = std::move(opened);
  PACELINE_ASSIGN(const std::uint64_t held_out, HeldOutSamples(all->size(), config.eval_samples));
  const std::uint64_t train = all->size() - held_out;
  return Titles{PartOf(all, {0, train}), PartOf(all, {train, held_out})};
}

Result<ModelWithData> MakeTitles(const TrainConfig& config) {
  Titles titles;
  if (config.Synthetic()) {
    titles = SyntheticTitles(config);
  } else {
    PACELINE_ASSIGN(titles, TitlesOfFiles(config));
  }
  sparse::SimnetBowOptions options{.seed = config.seed};
  if (Small(config)) options.embedding = options.hidden = 16;
  ModelWithData made;
  made.metric = Metric::kOrder;
  made.fingerprint = titles.train->Fingerprint();
  made.sources = {titles.train, titles.held_out};
  made.model = std::make_unique<sparse::SimnetBow>(options, *titles.train);
  if (titles.held_out->size() > 0) {
    made.held_out = std::make_unique<sparse::SimnetBow>(options, *titles.held_out);
  }
  return made;
}

std::string LeftOut(const std::string& file, std::size_t known, std::uint64_t left_out) {
  return fmt::format("{}: {} of {} questions are about words that are rare or not in the text",
                     file, left_out, known + left_out);
}

Result<std::shared_ptr<const data::TextSource>> TextOfFiles(const TrainConfig& config,
                                                            ModelWithData& made) {
  PACELINE_ASSIGN(auto opened, data::TextCorpus::Open(config.data, {}));
  const std::shared_ptr<const data::TextCorpus> text = std::move(opened);
  made.vocabulary = &text->vocabulary();
  if (!config.analogies.empty()) {
    PACELINE_ASSIGN(auto read, data::ReadAnalogies(config.analogies, *made.vocabulary));
    if (read.left_out > 0) {
      made.warnings.push_back(LeftOut(config.analogies, read.known.size(), read.left_out));
    }
    made.questions = std::move(read.known);
  }
  if (!config.similarities.empty()) {
    PACELINE_ASSIGN(auto read, data::ReadSimilarities(config.similarities, *made.vocabulary));
    if (read.left_out > 0) {
      made.warnings.push_back(LeftOut(config.similarities, read.known.size(), read.left_out));
    }
    made.similarities = std::move(read.known);
  }
  return std::shared_ptr<const data::TextSource>(text);
}

Result<ModelWithData> MakeWords(const TrainConfig& config) {
  ModelWithData made;
  made.metric = Metric::kAnalogy;
  std::shared_ptr<const data::TextSource> text;
  if (config.Synthetic()) {
    data::SyntheticTextOptions options{.seed = config.seed, .sentences = config.train_samples};
    if (Small(config)) {
      options.background = 300;
      options.pairs = 10;
    }
    const auto synthetic = std::make_shared<data::SyntheticText>(options);
    made.questions = synthetic->Questions();
    made.similarities = synthetic->Similarities();
    text = synthetic;
  } else {
    PACELINE_ASSIGN(text, TextOfFiles(config, made));
  }
  if (text->sentences() == 0) {
    return Status::Error(Code::kBadData, fmt::format("{} has no sentence", config.data));
  }
  made.fingerprint = text->Fingerprint();
  made.sources = {text};
  sparse::Word2VecOptions options{.seed = config.seed};
  if (Small(config)) options.dim = 16;
  made.model = std::make_unique<sparse::Word2Vec>(options, *text);
  return made;
}

}  // namespace

Result<ModelWithData> MakeModel(const TrainConfig& config) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(config.model));
  switch (card->family) {
    case model::Family::kClick: return MakeClicks(config);
    case model::Family::kMatching: return MakeTitles(config);
    case model::Family::kWords: return MakeWords(config);
    default: break;
  }
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("{} has no embedding table; paceline-worker trains it", config.model));
}

}  // namespace paceline::fused

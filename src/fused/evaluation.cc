#include "fused/evaluation.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "algo/metrics.h"
#include "data/word_questions.h"
#include "fused/round_rows.h"
#include "sparse/simnet_bow.h"
#include "sparse/word2vec_eval.h"

namespace paceline::fused {

namespace {

using Scores = std::vector<sparse::FusedModel::Scored>;

constexpr std::uint64_t kBatch = 500;
constexpr std::size_t kRowsAtOnce = 4096;

std::size_t DenseFloats(const sparse::FusedModel& model) {
  std::size_t floats = 0;
  for (const sparse::DenseSpec& tensor : model.dense()) floats += tensor.floats();
  return floats;
}

Status StoppedBy(const EvaluationOptions& options) {
  if (!options.stop || !options.stop()) return {};
  return Status::Error(Code::kAborted, "the evaluation was asked to stop");
}

ps::PullRequest Peek(const EvaluationOptions& options) {
  return {.trainer = options.trainer,
          .min_version = options.min_version,
          .touch = ps::Touch::kPeek,
          .rows = {},
          .dense = {}};
}

Result<Scores> ScoreHeldOut(sparse::FusedModel& model, ps::Store& store,
                            const EvaluationOptions& options) {
  Scores scores;
  RoundRows rows(model.tables());
  std::vector<float> dense(DenseFloats(model));
  std::array<std::unique_ptr<sparse::SparseBatch>, 1> batch;
  for (std::uint64_t done = 0; done < model.dataset_size(); done += kBatch) {
    PACELINE_TRY(StoppedBy(options));
    const std::uint64_t count = std::min(kBatch, model.dataset_size() - done);
    PACELINE_ASSIGN(batch[0], model.Prepare({done, count}, std::move(batch[0])));
    rows.Begin(batch);
    ps::PullRequest request = Peek(options);
    request.rows = rows.Wanted();
    if (done == 0) request.dense = dense;
    PACELINE_TRY(store.Pull(request).status());
    model.Score(*batch[0], dense, rows.RowsOf(0), scores);
  }
  return scores;
}

std::optional<double> AucOf(const Scores& scored) {
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  scores.reserve(scored.size());
  labels.reserve(scored.size());
  for (const auto& [score, label] : scored) {
    scores.push_back(score);
    labels.push_back(label > 0.5F ? 1 : 0);
  }
  return algo::ExactAuc(scores, labels);
}

// How many of the first words have all that are asked about.
std::uint64_t WordsOf(std::span<const data::SimilarityPair> pairs) {
  std::int64_t last = -1;
  for (const auto& pair : pairs) {
    last = std::max({last, std::int64_t{pair.first}, std::int64_t{pair.second}});
  }
  return static_cast<std::uint64_t>(last + 1);
}

// The first `rows` rows of table 0, in order of ids.
Result<std::vector<float>> PullEmbeddings(const sparse::TableSpec& table, std::uint64_t rows,
                                          ps::Store& store, const EvaluationOptions& options) {
  std::vector<float> values(rows * table.dim);
  std::vector<std::int64_t> ids;
  for (std::size_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    PACELINE_TRY(StoppedBy(options));
    ids.resize(std::min(kRowsAtOnce, rows - begin));
    std::iota(ids.begin(), ids.end(), static_cast<std::int64_t>(begin));
    ps::PullRequest request = Peek(options);
    request.rows = {{0, ids, std::span(values).subspan(begin * table.dim, ids.size() * table.dim)}};
    PACELINE_TRY(store.Pull(request).status());
  }
  return values;
}

Result<Evaluation> EvaluateWords(const ModelWithData& model, ps::Store& store,
                                 const EvaluationOptions& options) {
  if (model.questions.empty() && model.similarities.empty()) return Evaluation{};
  const sparse::TableSpec& table = model.model->tables().front();
  const auto answers = std::min<std::uint64_t>(table.rows, data::kQuestionWords);
  PACELINE_ASSIGN(
      const std::vector<float> values,
      PullEmbeddings(table, std::max(answers, WordsOf(model.similarities)), store, options));
  const sparse::EmbeddingView embeddings{values, table.dim};
  Evaluation evaluation{.samples = model.questions.size()};
  if (!model.questions.empty()) {
    const auto found = sparse::JudgeAnalogies(
        {std::span(values).first(answers * table.dim), table.dim}, model.questions);
    evaluation.accuracy = found.top1;
    evaluation.top4 = found.top4;
  } else {
    evaluation.samples = model.similarities.size();
  }
  if (!model.similarities.empty()) {
    evaluation.similarity = sparse::SimilarityCorrelation(embeddings, model.similarities);
  }
  return evaluation;
}

}  // namespace

Result<Evaluation> Evaluate(const ModelWithData& model, ps::Store& store,
                            const EvaluationOptions& options) {
  if (model.metric == Metric::kAnalogy) return EvaluateWords(model, store, options);
  if (model.held_out == nullptr) return Evaluation{};
  PACELINE_ASSIGN(const Scores scores, ScoreHeldOut(*model.held_out, store, options));
  Evaluation evaluation{.samples = model.held_out->dataset_size()};
  if (model.metric == Metric::kAuc) {
    evaluation.auc = AucOf(scores);
    return evaluation;
  }
  const sparse::PairOrder order = sparse::SimnetBow::OrderOf(scores);
  evaluation.accuracy = order.Accuracy();
  evaluation.pair_ratio = order.Ratio();
  return evaluation;
}

}  // namespace paceline::fused

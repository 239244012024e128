#include "train/evaluation.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include <torch/torch.h>

#include "algo/metrics.h"
#include "data/loader.h"
#include "train/torch_guard.h"

namespace paceline::train {

namespace {

// One accumulator per class: this class against all others.
double MeanAuc(const std::vector<algo::AucAccumulator>& classes) {
  double sum = 0;
  int count = 0;
  for (const algo::AucAccumulator& accumulator : classes) {
    if (const std::optional<double> auc = accumulator.Value()) {
      sum += *auc;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

// What one batch came to. Kept apart, so that the losses are added in the same order whoever
// computed them.
struct BatchCounts {
  double loss = 0;
  std::uint64_t correct = 0;
  std::uint64_t samples = 0;
};

struct Counts {
  std::vector<BatchCounts> batches;
  std::vector<algo::AucAccumulator> classes;
};

void Count(const torch::Tensor& log_probabilities, const data::Batch& batch, Counts& counts) {
  const auto rows = log_probabilities.accessor<float, 2>();
  BatchCounts& mine = counts.batches[batch.step.value()];
  for (std::size_t i = 0; i < batch.count; ++i) {
    const auto row = rows[static_cast<std::int64_t>(i)];
    std::int64_t best = 0;
    for (std::int64_t c = 0; c < row.size(0); ++c) {
      if (row[c] > row[best]) best = c;
      counts.classes[static_cast<std::size_t>(c)].Add(std::exp(row[c]), batch.labels[i] == c);
    }
    mine.correct += best == batch.labels[i] ? 1 : 0;
    mine.loss -= double{row[batch.labels[i]]};
    ++mine.samples;
  }
}

// All ranks' values one after the other, by rank.
template <typename T>
Result<std::vector<T>> Gather(collective::Engine& engine, const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(mine.size() * engine.world());
  std::ranges::copy(mine,
                    all.begin() + static_cast<std::ptrdiff_t>(mine.size() * engine.rank().value()));
  PACELINE_TRY(engine.AllGather(std::as_writable_bytes(std::span(all))));
  return all;
}

Status Share(collective::Engine& engine, Counts& counts) {
  PACELINE_ASSIGN(const auto batches, Gather(engine, counts.batches));
  PACELINE_ASSIGN(const auto classes, Gather(engine, counts.classes));
  for (std::size_t i = 0; i < counts.batches.size(); ++i) {
    counts.batches[i] = batches[i % engine.world() * counts.batches.size() + i];
  }
  const std::size_t count = counts.classes.size();
  counts.classes.assign(count, {});
  for (std::size_t i = 0; i < classes.size(); ++i) counts.classes[i % count].Merge(classes[i]);
  return {};
}

Evaluation Total(const Counts& counts) {
  Evaluation total;
  std::uint64_t correct = 0;
  for (const BatchCounts& batch : counts.batches) {
    total.loss += batch.loss;
    total.samples += batch.samples;
    correct += batch.correct;
  }
  if (total.samples == 0) return {};
  const auto n = static_cast<double>(total.samples);
  total.loss /= n;
  total.accuracy = static_cast<double>(correct) / n;
  total.auc = MeanAuc(counts.classes);
  return total;
}

}  // namespace

Result<Evaluation> Evaluate(ImageModel& model, const data::Dataset& dataset,
                            const EvaluationOptions& options) {
  return TorchGuard([&]() -> Result<Evaluation> {
    const torch::NoGradGuard no_grad;
    data::EvalShare share;
    if (options.engine != nullptr) {
      share = {options.engine->rank().value(), options.engine->world()};
    }
    PACELINE_ASSIGN(data::EvalBatches batches,
                    data::EvalBatches::Create(dataset, options.batch, share));
    Counts counts;
    counts.batches.resize((dataset.size() + options.batch - 1) / options.batch);
    counts.classes.resize(static_cast<std::size_t>(dataset.classes()));
    for (;;) {
      if (options.stop && options.stop()) {
        return Status::Error(Code::kAborted, "evaluation stopped");
      }
      PACELINE_ASSIGN(const data::Batch* next, batches.Next());
      if (next == nullptr) break;
      const torch::Tensor images =
          torch::from_blob(next->images.data(),
                           {static_cast<std::int64_t>(next->count), data::kImageShape.channels,
                            data::kImageShape.height, data::kImageShape.width},
                           torch::kFloat);
      Count(model.Forward(images, ForwardContext{}).log_softmax(1), *next, counts);
    }
    if (options.engine != nullptr) PACELINE_TRY(Share(*options.engine, counts));
    return Total(counts);
  });
}

}  // namespace paceline::train

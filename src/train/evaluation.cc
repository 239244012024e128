#include "train/evaluation.h"

#include <optional>
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

struct Counts {
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;
  double loss = 0;
  std::vector<algo::AucAccumulator> classes;
};

void Count(const torch::Tensor& log_probabilities, const data::Batch& batch, Counts& counts) {
  const auto rows = log_probabilities.accessor<float, 2>();
  for (std::size_t i = 0; i < batch.count; ++i) {
    const auto row = rows[static_cast<std::int64_t>(i)];
    std::int64_t best = 0;
    for (std::int64_t c = 0; c < row.size(0); ++c) {
      if (row[c] > row[best]) best = c;
      counts.classes[static_cast<std::size_t>(c)].Add(std::exp(row[c]), batch.labels[i] == c);
    }
    counts.correct += best == batch.labels[i] ? 1 : 0;
    counts.loss -= double{row[batch.labels[i]]};
    ++counts.samples;
  }
}

}  // namespace

Result<Evaluation> Evaluate(ImageModel& model, const data::Dataset& dataset, std::size_t batch,
                            const std::function<bool()>& stop) {
  return TorchGuard([&]() -> Result<Evaluation> {
    const torch::NoGradGuard no_grad;
    PACELINE_ASSIGN(data::EvalBatches batches, data::EvalBatches::Create(dataset, batch));
    Counts counts;
    counts.classes.resize(static_cast<std::size_t>(dataset.classes()));
    for (;;) {
      if (stop()) return Status::Error(Code::kAborted, "evaluation stopped");
      PACELINE_ASSIGN(const data::Batch* next, batches.Next());
      if (next == nullptr) break;
      const torch::Tensor images =
          torch::from_blob(next->images.data(),
                           {static_cast<std::int64_t>(next->count), data::kImageShape.channels,
                            data::kImageShape.height, data::kImageShape.width},
                           torch::kFloat);
      Count(model.Forward(images, ForwardContext{}).log_softmax(1), *next, counts);
    }
    if (counts.samples == 0) return Evaluation{};
    const auto n = static_cast<double>(counts.samples);
    return Evaluation{counts.samples, counts.loss / n, static_cast<double>(counts.correct) / n,
                      MeanAuc(counts.classes)};
  });
}

}  // namespace paceline::train

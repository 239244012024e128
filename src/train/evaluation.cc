#include "train/evaluation.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <torch/torch.h>

#include "data/loader.h"
#include "train/torch_guard.h"

namespace paceline::train {

namespace {

struct Counts {
  std::size_t width = 0;     // sums of a batch
  std::vector<double> sums;  // batch by batch
  std::vector<algo::AucAccumulator> aucs;

  std::span<double> Of(std::size_t batch) { return std::span(sums).subspan(batch * width, width); }
};

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
  PACELINE_ASSIGN(const auto sums, Gather(engine, counts.sums));
  for (std::size_t i = 0; i < counts.sums.size(); ++i) {
    const std::size_t batch = i / counts.width;
    counts.sums[i] = sums[batch % engine.world() * counts.sums.size() + i];
  }
  const std::size_t count = counts.aucs.size();
  if (count == 0) return {};
  PACELINE_ASSIGN(const auto aucs, Gather(engine, counts.aucs));
  counts.aucs.assign(count, {});
  for (std::size_t i = 0; i < aucs.size(); ++i) counts.aucs[i % count].Merge(aucs[i]);
  return {};
}

Evaluation Total(const Objective& objective, std::uint64_t samples, const Counts& counts) {
  std::vector<double> sums(counts.width);
  for (std::size_t i = 0; i < counts.sums.size(); ++i) sums[i % counts.width] += counts.sums[i];
  return {samples, objective.Metrics(sums, counts.aucs)};
}

}  // namespace

double Evaluation::Of(std::string_view name) const {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

Result<Evaluation> Evaluate(const BuiltModel& model, const data::BatchSource& source,
                            const EvaluationOptions& options) {
  return TorchGuard([&]() -> Result<Evaluation> {
    const torch::NoGradGuard no_grad;
    data::EvalShare share;
    if (options.engine != nullptr) {
      share = {options.engine->rank().value(), options.engine->world()};
    }
    PACELINE_ASSIGN(data::EvalBatches batches,
                    data::EvalBatches::Create(source, options.batch, share, options.data_threads));
    Counts counts{.width = model.objective->SumCount()};
    counts.sums.resize((source.size() + options.batch - 1) / options.batch * counts.width);
    counts.aucs.resize(model.objective->AucCount());
    for (;;) {
      if (options.stop && options.stop()) {
        return Status::Error(Code::kAborted, "evaluation stopped");
      }
      PACELINE_ASSIGN(const data::Batch* next, batches.Next());
      if (next == nullptr) break;
      model.objective->Count(*model.network, AsTensors(*next),
                             {counts.Of(next->step.value()), counts.aucs, options.tokenizer});
    }
    if (options.engine != nullptr) PACELINE_TRY(Share(*options.engine, counts));
    return Total(*model.objective, source.size(), counts);
  });
}

}  // namespace paceline::train

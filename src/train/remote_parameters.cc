#include "train/remote_parameters.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::train {

namespace {

// The report travels as a statistic: the servers add it up like everything else.
constexpr std::size_t kReportFloats = 5;

algo::TensorRows RowsOf(const NamedRange& range) {
  const auto rows =
      range.shape.empty() ? std::uint64_t{1} : static_cast<std::uint64_t>(range.shape[0]);
  return {rows, rows == 0 ? 1 : range.count / rows};
}

ps::RowOptimizerOptions ServerOptimizer(const OptimizerOptions& options) {
  ps::RowOptimizerOptions server;
  server.weight_decay = static_cast<float>(options.weight_decay);
  server.momentum = static_cast<float>(options.momentum);
  if (options.name == "adam") {
    server.kind = ps::RowOptimizerKind::kAdam;
  } else if (options.name == "adagrad") {
    server.kind = ps::RowOptimizerKind::kAdagrad;
    server.epsilon = 1e-10F;  // as kernel::AdagradOptions
  } else {
    server.kind =
        options.momentum == 0 ? ps::RowOptimizerKind::kSgd : ps::RowOptimizerKind::kMomentum;
  }
  return server;
}

void ReadTensors(std::span<const float>& from, FlatTensors& tensors) {
  for (const NamedRange& range : tensors.ranges()) {
    std::ranges::copy(from.first(range.count), tensors.Of(range).begin());
    from = from.subspan(range.count);
  }
}

std::size_t FloatsOf(const FlatTensors& params, const FlatTensors& buffers) {
  return params.ElementCount() + buffers.ElementCount() + kReportFloats;
}

}  // namespace

ps::JobSpec RemoteParameters::MakeJob(const FlatTensors& params, const FlatTensors& buffers,
                                      const RemoteOptions& options) {
  ps::JobSpec job{
      .fingerprint = options.fingerprint,
      .apply = options.mode == RemoteMode::kSync ? ps::Apply::kTogether : ps::Apply::kAtOnce,
      .trainers = options.trainers,
      .tables = {},
      .dense = {},
      .dense_optimizer = ServerOptimizer(options.optimizer),
      .delay_compensation = static_cast<float>(options.delay_compensation)};
  job.dense.reserve(params.ranges().size() + buffers.ranges().size() + 1);
  for (const NamedRange& range : params.ranges()) job.dense.push_back({range.name, RowsOf(range)});
  for (const NamedRange& range : buffers.ranges()) {
    job.dense.push_back({range.name, RowsOf(range), ps::DenseKind::kStatistic});
  }
  job.dense.push_back({"report", {1, kReportFloats}, ps::DenseKind::kStatistic});
  return job;
}

RemoteParameters::RemoteParameters(ps::Store& store, FlatTensors& params, FlatTensors& buffers,
                                   const RemoteOptions& options)
    : store_(store),
      params_(params),
      buffers_(buffers),
      options_(options),
      dense_(FloatsOf(params, buffers)) {}

Result<Step> RemoteParameters::Start() {
  auto to = dense_.begin();
  for (FlatTensors* tensors : {&params_, &buffers_}) {
    for (const NamedRange& range : tensors->ranges()) {
      to = std::ranges::copy(tensors->Of(range), to).out;
    }
  }
  PACELINE_TRY(store_.Initialise(dense_));
  PACELINE_ASSIGN(const std::uint64_t next, store_.NextBatch(options_.rank));
  PACELINE_TRY(Take(options_.mode == RemoteMode::kSync ? next : 0));
  return Step(next);
}

Status RemoteParameters::Take(std::uint64_t min_version) {
  PACELINE_ASSIGN(
      ps::PullAnswer answer,
      store_.Pull(
          {.trainer = options_.rank, .min_version = min_version, .rows = {}, .dense = dense_}));
  pushes_ = std::move(answer.pushes);
  std::span<const float> from = dense_;
  ReadTensors(from, params_);
  ReadTensors(from, buffers_);
  return {};
}

std::vector<float> RemoteParameters::Gather(const GradientSpans& gradient,
                                            std::span<const float> statistics) const {
  std::vector<float> dense;
  dense.reserve(dense_.size());
  for (const std::span<float> part : gradient) dense.insert(dense.end(), part.begin(), part.end());
  for (const NamedRange& range : buffers_.ranges()) {
    const auto part = statistics.subspan(range.offset, range.count);
    dense.insert(dense.end(), part.begin(), part.end());
  }
  return dense;
}

Status RemoteParameters::Exchange(Step step, double learning_rate, const GradientSpans& gradient,
                                  std::span<const float> statistics, RemoteReport& report) {
  ps::Push push{.lease = options_.rank,
                .batch = step.value(),
                .learning_rate = static_cast<float>(learning_rate),
                .trainers = options_.trainers,
                .tables = {}};
  std::vector<float> dense;
  const bool sync = options_.mode == RemoteMode::kSync;
  if (sync || report.samples > 0) {
    dense = Gather(gradient, statistics);
    dense.insert(dense.end(), {static_cast<float>(report.loss), static_cast<float>(report.correct),
                               static_cast<float>(report.samples), report.stop ? 1.0F : 0.0F,
                               report.finite ? 0.0F : 1.0F});
    push.dense = dense;
  }
  PACELINE_TRY(store_.Push(push, pushes_));
  const std::uint64_t done = step.value() + 1;
  if (!sync) {
    return Take(options_.staleness >= done ? 0 : done - options_.staleness);
  }
  PACELINE_TRY(Take(done));
  const std::span<const float> sums = std::span(dense_).last(kReportFloats);
  report = {.loss = sums[0],
            .correct = sums[1],
            .samples = sums[2],
            .stop = sums[3] > 0,
            .finite = sums[4] == 0};
  return {};
}

Status RemoteParameters::Finish(Step steps) {
  PACELINE_TRY(store_.Flush());
  return Take(steps.value());
}

}  // namespace paceline::train

#include "train/remote_parameters.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "kernel/optimizer.h"

namespace paceline::train {

namespace {

// The report travels as a statistic: the servers add it up like everything else.
constexpr std::size_t kReportFloats = 6;

algo::TensorRows RowsOf(const NamedRange& range) {
  const auto rows =
      range.shape.empty() ? std::uint64_t{1} : static_cast<std::uint64_t>(range.shape[0]);
  return {rows, rows == 0 ? 1 : range.count / rows};
}

ps::RowOptimizerOptions ServerOptimizer(const OptimizerOptions& options) {
  ps::RowOptimizerOptions server;
  server.weight_decay = static_cast<float>(options.weight_decay);
  server.momentum = static_cast<float>(options.momentum);
  if (options.name != "sgd") server.epsilon = static_cast<float>(options.epsilon);
  if (options.name == "adam" || options.name == "adamw") {
    server.kind =
        options.name == "adam" ? ps::RowOptimizerKind::kAdam : ps::RowOptimizerKind::kAdamW;
    server.beta1 = static_cast<float>(options.beta1);
    server.beta2 = static_cast<float>(options.beta2);
  } else if (options.name == "adagrad") {
    server.kind = ps::RowOptimizerKind::kAdagrad;
  } else if (options.name == "ftrl") {
    server.kind = ps::RowOptimizerKind::kFtrl;
    server.ftrl_l1 = static_cast<float>(options.ftrl_l1);
    server.ftrl_l2 = server.weight_decay;
  } else {
    server.kind =
        options.momentum == 0 ? ps::RowOptimizerKind::kSgd : ps::RowOptimizerKind::kMomentum;
  }
  return server;
}

ps::DenseKind KindOf(const NamedRange& range, const OptimizerOptions& optimizer) {
  const bool decays = optimizer.decay.Decays(range.name, range.shape.size());
  return decays ? ps::DenseKind::kParameter : ps::DenseKind::kWithoutDecay;
}

// Backward goes from the last parameter to the first, so that is how they lie on the servers: the
// beginning of a push is there first.
void ReadValues(std::span<const float> from, FlatTensors& params, FlatTensors& buffers) {
  const auto take = [&](const NamedRange& range, FlatTensors& tensors) {
    std::ranges::copy(from.first(range.count), tensors.Of(range).begin());
    from = from.subspan(range.count);
  };
  for (auto range = params.ranges().rbegin(); range != params.ranges().rend(); ++range) {
    take(*range, params);
  }
  for (const NamedRange& range : buffers.ranges()) take(range, buffers);
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
  for (auto range = params.ranges().rbegin(); range != params.ranges().rend(); ++range) {
    job.dense.push_back({.name = range->name,
                         .rows = RowsOf(*range),
                         .kind = KindOf(*range, options.optimizer),
                         .shape = range->shape});
  }
  for (const NamedRange& range : buffers.ranges()) {
    job.dense.push_back({.name = range.name,
                         .rows = RowsOf(range),
                         .kind = ps::DenseKind::kStatistic,
                         .shape = range.shape});
  }
  job.dense.push_back({".report", {1, kReportFloats}, ps::DenseKind::kStatistic});
  return job;
}

RemoteParameters::RemoteParameters(ps::Store& store, FlatTensors& params, FlatTensors& buffers,
                                   const RemoteOptions& options, const Clock& clock)
    : store_(store),
      params_(params),
      buffers_(buffers),
      options_(options),
      report_(kReportFloats),
      arriving_(params, buffers, report_, clock) {}

// The module's values, as the servers lay them out.
std::vector<float> RemoteParameters::CopyDense() const {
  std::vector<float> dense;
  dense.reserve(arriving_.floats());
  const auto add = [&](std::span<const float> values) {
    dense.insert(dense.end(), values.begin(), values.end());
  };
  for (auto range = params_.ranges().rbegin(); range != params_.ranges().rend(); ++range) {
    add(params_.Of(*range));
  }
  for (const NamedRange& range : buffers_.ranges()) add(buffers_.Of(range));
  dense.resize(arriving_.floats());  // no report yet
  return dense;
}

Result<Step> RemoteParameters::Begin(const algo::TrainerShare& share, std::uint64_t trainers) {
  arriving_.Join();  // whatever came of it: all is taken anew
  share_ = share;
  trainers_ = trainers;
  summed_ = 0;
  PACELINE_ASSIGN(const std::uint64_t next, store_.NextBatch(share.lease));
  PACELINE_TRY(TakeValues(options_.mode == RemoteMode::kSync ? next : 0));
  step_ = std::min(share.FirstStep(next), share.plan.Steps());
  return Step(step_);
}

ps::PullRequest RemoteParameters::RequestOf(std::uint64_t min_version,
                                            std::uint64_t own_batches) const {
  return {.trainer = share_.lease,
          .min_version = min_version,
          .own_batches = own_batches,
          .rows = {},
          .dense = {}};
}

void RemoteParameters::StartPull(std::uint64_t min_version, std::uint64_t own_batches) {
  ps::PullRequest request = RequestOf(min_version, own_batches);
  dense_.resize(arriving_.floats());
  request.dense = dense_;
  arriving_.Start([this, request](const ps::TakeDense& take) -> Status {
    PACELINE_ASSIGN(ps::PullAnswer answer, store_.PullArriving(request, take));
    pushes_ = std::move(answer.pushes);
    return {};
  });
}

Status RemoteParameters::PullDense(std::uint64_t min_version, std::uint64_t own_batches) {
  ps::PullRequest request = RequestOf(min_version, own_batches);
  dense_.resize(arriving_.floats());
  request.dense = dense_;
  PACELINE_ASSIGN(ps::PullAnswer answer, store_.Pull(request));
  pushes_ = std::move(answer.pushes);
  known_pushes_ = pushes_.front();
  return {};
}

Status RemoteParameters::TakeValues(std::uint64_t min_version) {
  if (options_.mode == RemoteMode::kGeo) {
    PACELINE_TRY(PullDense(min_version, 0));
    ReadValues(dense_, params_, buffers_);
    return {};
  }
  StartPull(min_version, 0);
  PACELINE_TRY(Await());
  known_pushes_ = pushes_.front();
  return {};
}

std::vector<float> RemoteParameters::Gather(const GradientSpans& gradient,
                                            std::span<const float> tail) {
  std::vector<float> dense;
  for (auto part = gradient.rbegin(); part != gradient.rend(); ++part) {
    dense.insert(dense.end(), part->begin(), part->end());
  }
  dense.insert(dense.end(), tail.begin(), tail.end());
  return dense;
}

std::vector<float> RemoteParameters::Tail(std::span<const float> statistics,
                                          const RemoteReport& report) const {
  std::vector<float> tail;
  for (const NamedRange& range : buffers_.ranges()) {
    const auto part = statistics.subspan(range.offset, range.count);
    tail.insert(tail.end(), part.begin(), part.end());
  }
  const std::array<float, kReportFloats> numbers{static_cast<float>(report.loss),
                                                 static_cast<float>(report.correct),
                                                 static_cast<float>(report.predictions),
                                                 static_cast<float>(report.samples),
                                                 report.stop ? 1.0F : 0.0F,
                                                 report.finite ? 0.0F : 1.0F};
  tail.insert(tail.end(), numbers.begin(), numbers.end());
  return tail;
}

// Weighs by samples, in units of those of the first step: steps of equal length are added exactly
// as they are.
void RemoteParameters::Accumulate(std::span<const float> dense, double samples) {
  if (summed_ == 0) {
    sum_.assign(dense.size(), 0.0F);
    unit_ = samples;
  }
  summed_ += samples / unit_;
  const auto weight = static_cast<float>(samples / unit_);
  std::ranges::transform(sum_, dense, sum_.begin(),
                         [weight](float sum, float value) { return sum + weight * value; });
}

ps::Push RemoteParameters::PushOf(double learning_rate) const {
  return {.lease = share_.lease,
          .batch = rounds(),
          .learning_rate = static_cast<float>(learning_rate),
          .last = share_.leased() && rounds() + 1 == share_.Rounds(),
          .trainers = trainers_,
          .tables = {}};
}

Status RemoteParameters::OpenPush(double learning_rate) {
  PACELINE_TRY(Await());  // what the push was computed with
  PACELINE_ASSIGN(open_, store_.Open(PushOf(learning_rate), pushes_));
  handed_in_ = 0;
  return {};
}

void RemoteParameters::HandIn(double learning_rate, std::span<const float> gradient) {
  const bool pushes_steps =
      options_.mode == RemoteMode::kSync || options_.mode == RemoteMode::kAsync;
  if (!pushes_steps || !hand_in_failed_.ok()) return;
  if (!open_) {
    hand_in_failed_ = OpenPush(learning_rate);
    if (!hand_in_failed_.ok()) return;
  }
  open_->Append(gradient);
  ++handed_in_;
}

Status RemoteParameters::PushAll(ps::Push push, const GradientSpans& gradient,
                                 std::span<const float> tail) {
  PACELINE_TRY(std::exchange(hand_in_failed_, {}));
  if (const auto open = std::exchange(open_, nullptr); open && handed_in_ == gradient.size()) {
    open->Append(tail);
    return open->Finish();
  }
  const std::vector<float> dense = Gather(gradient, tail);
  push.dense = dense;
  return store_.Push(push, pushes_);
}

Status RemoteParameters::PullAfter(std::uint64_t batch) {
  const std::uint64_t done = batch + 1;
  known_pushes_ = std::max(known_pushes_, pushes_.front() + 1);
  StartPull(options_.staleness >= done ? 0 : done - options_.staleness, done);
  return arriving_.AwaitRest();
}

Status RemoteParameters::ExchangeSync(const ps::Push& push, const GradientSpans& gradient,
                                      std::span<const float> statistics, RemoteReport& report) {
  PACELINE_TRY(PushAll(push, gradient, Tail(statistics, report)));
  StartPull(push.batch + 1, 0);
  PACELINE_TRY(arriving_.AwaitRest());
  report = {.loss = report_[0],
            .correct = report_[1],
            .predictions = report_[2],
            .samples = report_[3],
            .stop = report_[4] > 0,
            .finite = report_[5] == 0};
  return {};
}

// x: the module's values, y: what the servers had last, z: what they have now.
Status RemoteParameters::ExchangeDifferences(ps::Push push) {
  std::vector<float> x = CopyDense(), difference(x.size());
  std::vector<float>& y = dense_;
  std::copy(y.end() - kReportFloats, y.end(), x.end() - kReportFloats);
  std::ranges::transform(x, y, difference.begin(), std::minus<>());
  push.deltas = true;
  push.dense = difference;
  PACELINE_TRY(store_.Push(push, {}));
  const auto share = 1.0F / static_cast<float>(trainers_);
  std::vector<float> own(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) own[i] = y[i] + difference[i] * share;
  PACELINE_TRY(PullDense(0, push.batch + 1));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += dense_[i] - own[i];
  ReadValues(x, params_, buffers_);
  return {};
}

void RemoteParameters::StepOwnCopy(float learning_rate, const GradientSpans& gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const NamedRange& range = params_.ranges()[i];
    const bool decays = KindOf(range, options_.optimizer) == ps::DenseKind::kParameter;
    const double decay = decays ? options_.optimizer.weight_decay : 0;
    kernel::SgdStep({.learning_rate = learning_rate, .weight_decay = static_cast<float>(decay)},
                    params_.Of(range), gradient[i], {});
  }
}

Status RemoteParameters::Exchange(double learning_rate, const GradientSpans& gradient,
                                  std::span<const float> statistics, RemoteReport& report) {
  PACELINE_TRY(Await());
  PACELINE_TRY(ExchangeStep(gradient, statistics, PushOf(learning_rate), report));
  ++step_;
  return {};
}

Status RemoteParameters::ExchangeStep(const GradientSpans& gradient,
                                      std::span<const float> statistics, ps::Push push,
                                      RemoteReport& report) {
  const bool counts = report.samples > 0 && report.finite;
  if (!counts) Abandon();  // it may say something else than `gradient`
  switch (options_.mode) {
    case RemoteMode::kSync: return ExchangeSync(push, gradient, statistics, report);
    case RemoteMode::kAsync:
      PACELINE_TRY(counts ? PushAll(push, gradient, Tail(statistics, {}))
                          : store_.Push(push, pushes_));
      return PullAfter(push.batch);
    case RemoteMode::kHalfAsync: {
      if (BeginsRound()) round_rate_ = push.learning_rate;
      if (counts) Accumulate(Gather(gradient, Tail(statistics, {})), report.samples);
      if (!EndsRound()) return {};
      push.learning_rate = round_rate_;
      if (summed_ > 0) {
        const auto mean = static_cast<float>(1 / std::exchange(summed_, 0));
        for (float& value : sum_) value *= mean;
        push.dense = sum_;
      }
      PACELINE_TRY(store_.Push(push, pushes_));
      return PullAfter(push.batch);
    }
    case RemoteMode::kGeo:
      if (counts) StepOwnCopy(push.learning_rate, gradient);
      return EndsRound() ? ExchangeDifferences(push) : Status();
  }
  return {};
}

Status RemoteParameters::Finish(bool of_all_trainers) {
  arriving_.Join();  // as above
  PACELINE_TRY(store_.Flush());
  return TakeValues(of_all_trainers ? share_.Rounds() : 0);
}

}  // namespace paceline::train

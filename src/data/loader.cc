#include "data/loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/thread.h"

namespace paceline::data {

namespace {

Status Validate(const BatchSource& source, const algo::BatchPlan& plan,
                const LoaderOptions& options) {
  PACELINE_TRY(plan.Validate());
  if (plan.dataset_size != source.size()) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("a plan for {} samples on a data set of {}", plan.dataset_size, source.size()));
  }
  if (options.first_shard > options.end_shard || options.end_shard.value() > plan.shards) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("shards [{}, {}) of {}", options.first_shard.value(),
                                     options.end_shard.value(), plan.shards));
  }
  if (options.threads < 1 || options.depth < 1) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("a loader with {} threads and a depth of {}", options.threads, options.depth));
  }
  return {};
}

std::uint64_t OwnedShards(const LoaderOptions& options) {
  return options.end_shard.value() - options.first_shard.value();
}

std::uint64_t BatchCount(const algo::BatchPlan& plan, const LoaderOptions& options) {
  const std::uint64_t first = std::min(options.first_step.value(), plan.Steps());
  const std::uint64_t batches = (plan.Steps() - first) * OwnedShards(options);
  return std::min(options.most, batches - std::min(options.skip, batches));
}

}  // namespace

Result<std::unique_ptr<BatchLoader>> BatchLoader::Create(const BatchSource& source,
                                                         const algo::BatchPlan& plan,
                                                         const LoaderOptions& options) {
  PACELINE_TRY(Validate(source, plan, options));
  const std::uint64_t pool = std::min(
      static_cast<std::uint64_t>(options.depth) * OwnedShards(options), BatchCount(plan, options));
  std::unique_ptr<BatchLoader> loader(
      new BatchLoader(source, plan, options, static_cast<std::size_t>(pool)));
  PACELINE_TRY(loader->Start());
  return loader;
}

BatchLoader::BatchLoader(const BatchSource& source, const algo::BatchPlan& plan,
                         const LoaderOptions& options, std::size_t buffers)
    : source_(source),
      plan_(plan),
      options_(options),
      owned_shards_(OwnedShards(options)),
      end_(BatchCount(plan, options)),
      buffers_(buffers),
      states_(buffers) {}

BatchLoader::~BatchLoader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

Status BatchLoader::Start() {
  // More threads than buffers would only wait.
  const auto count = std::min(static_cast<std::size_t>(options_.threads), buffers_.size());
  try {
    for (std::size_t i = 0; i < count; ++i) {
      threads_.push_back(StartThread(fmt::format("loader-{}", i),
                                     [this](const std::stop_token& stop) { Produce(stop); }));
    }
  } catch (const std::system_error& error) {
    return Status::Error(Code::kUnavailable,
                         fmt::format("cannot start a loader thread: {}", error.what()));
  }
  return {};
}

void BatchLoader::Produce(const std::stop_token& stop) {
  std::uint64_t sequence = 0;
  while (Claim(stop, sequence)) Publish(sequence, Fill(stop, sequence, buffers_[Slot(sequence)]));
}

bool BatchLoader::Claim(const std::stop_token& stop, std::uint64_t& sequence) {
  MutexLock lock(mu_);
  space_.wait(mu_, stop, [this]() PACELINE_REQUIRES(mu_) {
    return failed_ || claimed_ == end_ || claimed_ < released_ + buffers_.size();
  });
  if (stop.stop_requested() || failed_ || claimed_ == end_) return false;
  sequence = claimed_++;
  return true;
}

Status BatchLoader::Fill(const std::stop_token& stop, std::uint64_t sequence,
                         BatchBuffer& buffer) const {
  Batch& batch = buffer.batch;
  const std::uint64_t number = options_.skip + sequence;
  batch.step = Step(options_.first_step.value() + number / owned_shards_);
  batch.shard = ShardId(options_.first_shard.value() + number % owned_shards_);
  const algo::PositionRange range = plan_.ShardRange(batch.step, batch.shard);
  batch.first_position = range.begin;
  batch.epoch = plan_.EpochOf(range.begin);
  batch.count = range.count;
  const std::uint64_t step_begin = batch.step.value() * plan_.GlobalBatch();
  std::vector<SampleRef> samples(range.count);
  for (std::size_t i = 0; i < range.count; ++i) {
    const std::uint64_t position = range.begin + i;
    samples[i] = {plan_.SampleAt(position), position - step_begin};
  }
  return source_.Fill(
      {.samples = samples, .training = true, .seed = plan_.seed, .step = batch.step, .stop = stop},
      buffer);
}

void BatchLoader::Publish(std::uint64_t sequence, const Status& status) {
  MutexLock lock(mu_);
  states_[Slot(sequence)] = {true, status};
  ready_.notify_all();
  if (!status.ok()) {
    // Everything before this batch is claimed already and will still be delivered.
    failed_ = true;
    space_.notify_all();
  }
}

Result<const Batch*> BatchLoader::Next(std::stop_token stop) {
  MutexLock lock(mu_);
  if (std::exchange(lent_, false)) {
    ++released_;
    space_.notify_all();
  }
  if (released_ == end_) return nullptr;
  SlotState& state = states_[Slot(released_)];
  // A failed batch stays ready and is never released: its error is the answer for ever.
  ready_.wait(mu_, stop, [&state] { return state.ready; });
  if (stop.stop_requested()) return Status::Error(Code::kAborted, "stopped waiting for data");
  if (!state.status.ok()) return state.status;
  state.ready = false;
  lent_ = true;
  const Batch* batch = &buffers_[Slot(released_)].batch;
  return batch;
}

Result<EvalBatches> EvalBatches::Create(const BatchSource& source, std::size_t batch,
                                        const EvalShare& share, std::size_t ahead) {
  if (batch == 0) return Status::Error(Code::kInvalidArgument, "a batch of 0 samples");
  return EvalBatches(source, batch, share, ahead);
}

void EvalBatches::Begin(Prepared& place) {
  const std::uint64_t rest = source_->size() - next_;
  Batch& batch = place.buffer.batch;
  batch.step = Step(next_ / capacity_);
  batch.first_position = next_;
  batch.count = static_cast<std::size_t>(std::min<std::uint64_t>(capacity_, rest));
  place.samples.resize(batch.count);
  for (std::size_t i = 0; i < batch.count; ++i) place.samples[i] = {next_ + i, i};
  next_ += capacity_ * stride_;
  const auto fill = [&source = *source_, &place] {
    place.status =
        source.Fill({.samples = place.samples, .step = place.buffer.batch.step}, place.buffer);
  };
  if (ahead_ == 0) {
    fill();
  } else {
    place.thread = StartThread("eval-data", fill);
  }
}

Result<const Batch*> EvalBatches::Next() {
  // The memory of the one that comes back holds the last one that is begun.
  std::unique_ptr<Prepared> free = std::move(lent_);
  while (begun_.size() <= ahead_ && next_ < source_->size()) {
    if (free == nullptr) free = std::make_unique<Prepared>();
    Begin(*free);
    begun_.push_back(std::exchange(free, nullptr));
  }
  if (begun_.empty()) return nullptr;
  lent_ = std::move(begun_.front());
  begun_.pop_front();
  if (lent_->thread.joinable()) lent_->thread.join();
  PACELINE_TRY(lent_->status);
  const Batch* lent = &lent_->buffer.batch;
  return lent;
}

}  // namespace paceline::data

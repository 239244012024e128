#include "data/loader.h"

#include <algorithm>
#include <array>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/thread.h"

namespace paceline::data {

namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register

Status ReadInto(const Dataset& dataset, std::uint64_t index, const CropFlip& window,
                BatchBuffer& buffer, std::size_t slot) {
  std::array<std::uint8_t, kImagePixels> image;
  PACELINE_TRY(dataset.Read(index, image, buffer.Label(slot)));
  Normalize(image, window, buffer.Image(slot));
  return {};
}

Status Validate(const Dataset& dataset, const algo::BatchPlan& plan, const LoaderOptions& options) {
  PACELINE_TRY(plan.Validate());
  if (plan.dataset_size != dataset.size()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a plan for {} samples on a data set of {}", plan.dataset_size,
                                     dataset.size()));
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
  return (plan.Steps() - first) * OwnedShards(options);
}

}  // namespace

Result<BatchBuffer> BatchBuffer::Create(std::size_t capacity) {
  BatchBuffer buffer;
  const std::size_t bytes = capacity * kImagePixels * sizeof(float);
  static_assert(kImagePixels * sizeof(float) % kAlignment == 0, "aligned_alloc wants multiples");
  buffer.images_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
  try {
    buffer.labels_.resize(capacity);
  } catch (const std::bad_alloc&) {
    buffer.images_.reset();
  }
  if (buffer.images_ == nullptr) {
    return Status::Error(Code::kUnavailable,
                         fmt::format("no memory for a batch of {} samples", capacity));
  }
  return buffer;
}

void BatchBuffer::Resize(std::size_t count) {
  PACELINE_CHECK(count <= labels_.size(), "a batch beyond its buffer");
  batch.count = count;
  batch.images = {images_.get(), count * kImagePixels};
  batch.labels = {labels_.data(), count};
}

std::span<float> BatchBuffer::Image(std::size_t i) {
  return {images_.get() + i * kImagePixels, kImagePixels};
}

Result<std::unique_ptr<BatchLoader>> BatchLoader::Create(const Dataset& dataset,
                                                         const algo::BatchPlan& plan,
                                                         const LoaderOptions& options) {
  PACELINE_TRY(Validate(dataset, plan, options));
  const std::uint64_t pool = std::min(
      static_cast<std::uint64_t>(options.depth) * OwnedShards(options), BatchCount(plan, options));
  std::vector<BatchBuffer> buffers;
  for (std::uint64_t i = 0; i < pool; ++i) {
    PACELINE_ASSIGN(BatchBuffer buffer, BatchBuffer::Create(plan.batch));
    buffers.push_back(std::move(buffer));
  }
  std::unique_ptr<BatchLoader> loader(new BatchLoader(dataset, plan, options, std::move(buffers)));
  PACELINE_TRY(loader->Start());
  return loader;
}

BatchLoader::BatchLoader(const Dataset& dataset, const algo::BatchPlan& plan,
                         const LoaderOptions& options, std::vector<BatchBuffer> buffers)
    : dataset_(dataset),
      plan_(plan),
      options_(options),
      owned_shards_(OwnedShards(options)),
      end_(BatchCount(plan, options)),
      buffers_(std::move(buffers)),
      states_(buffers_.size()) {}

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
  batch.step = Step(options_.first_step.value() + sequence / owned_shards_);
  batch.shard = ShardId(options_.first_shard.value() + sequence % owned_shards_);
  const algo::PositionRange range = plan_.ShardRange(batch.step, batch.shard);
  batch.first_position = range.begin;
  batch.epoch = plan_.EpochOf(range.begin);
  buffer.Resize(range.count);
  const std::uint64_t step_begin = batch.step.value() * plan_.GlobalBatch();
  for (std::size_t i = 0; i < range.count; ++i) {
    if (stop.stop_requested()) return Status::Error(Code::kAborted, "the loader is closing");
    const std::uint64_t position = range.begin + i;
    const CropFlip window =
        DrawCropFlip(options_.augment, plan_.seed, batch.step.value(), position - step_begin);
    PACELINE_TRY(ReadInto(dataset_, plan_.SampleAt(position), window, buffer, i));
  }
  return {};
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

Result<EvalBatches> EvalBatches::Create(const Dataset& dataset, std::size_t batch,
                                        const EvalShare& share) {
  if (batch == 0) return Status::Error(Code::kInvalidArgument, "a batch of 0 samples");
  const auto capacity = static_cast<std::size_t>(
      std::min<std::uint64_t>(batch, std::max<std::uint64_t>(1, dataset.size())));
  PACELINE_ASSIGN(BatchBuffer buffer, BatchBuffer::Create(capacity));
  return EvalBatches(dataset, capacity, std::move(buffer), share);
}

Result<const Batch*> EvalBatches::Next() {
  if (next_ >= dataset_->size()) return nullptr;
  const std::uint64_t rest = dataset_->size() - next_;
  Batch& batch = buffer_.batch;
  batch.step = Step(next_ / capacity_);
  batch.first_position = next_;
  buffer_.Resize(std::min<std::uint64_t>(capacity_, rest));
  for (std::size_t i = 0; i < batch.count; ++i) {
    PACELINE_TRY(ReadInto(*dataset_, next_ + i, CropFlip{}, buffer_, i));
  }
  next_ += capacity_ * stride_;
  const Batch* lent = &batch;
  return lent;
}

}  // namespace paceline::data

#include "train/gradient_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace paceline::train {

namespace {

constexpr std::size_t kLine = 16;  // floats

std::size_t Padded(std::size_t floats) { return (floats + kLine - 1) / kLine * kLine; }

}  // namespace

GradientExchange::GradientExchange(const FlatTensors& params, std::size_t statistics,
                                   const ExchangeOptions& options)
    : params_(params),
      options_(options),
      nodes_(options.layout.NodesOf(options.rank)),
      places_(params.ranges().size()),
      statistics_(statistics) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].count = params.ranges()[i].count;
    elements_ += Padded(places_[i].count);
  }
  statistics_at_ = elements_;
  elements_ += Padded(statistics);
}

Result<std::unique_ptr<GradientExchange>> GradientExchange::Make(const FlatTensors& params,
                                                                 std::size_t statistics,
                                                                 const ExchangeOptions& options) {
  std::unique_ptr<GradientExchange> exchange(new GradientExchange(params, statistics, options));
  PACELINE_TRY(exchange->Allocate());
  // Backward goes from the last layer to the first; the first step shows how exactly.
  std::vector<std::uint64_t> order(params.ranges().size());
  std::iota(order.rbegin(), order.rend(), std::uint64_t{0});
  exchange->SetOrder(order);
  return exchange;
}

Status GradientExchange::Allocate() {
  parts_.reserve(nodes_.size());
  own_memory_.reserve(nodes_.size());
  for (std::size_t part = 0; part < nodes_.size(); ++part) {
    if (options_.engine == nullptr) {
      parts_.emplace_back(own_memory_.emplace_back(elements_));
      continue;
    }
    PACELINE_ASSIGN(const std::span<float> memory, options_.engine->Allocate(elements_));
    parts_.push_back(memory);
  }
  return {};
}

void GradientExchange::SetOrder(std::span<const std::uint64_t> order) {
  PACELINE_CHECK(order.size() == places_.size(), "every tensor has a place");
  buckets_.clear();
  std::size_t offset = 0;
  for (const std::uint64_t tensor : order) {
    TensorPlace& place = places_[tensor];
    const bool full = !buckets_.empty() &&
                      (buckets_.back().size + place.count) * sizeof(float) > options_.bucket_bytes;
    if (buckets_.empty() || full) buckets_.push_back({.offset = offset});
    Bucket& bucket = buckets_.back();
    bucket.tensors.push_back(tensor);
    place.bucket = buckets_.size() - 1;
    place.offset = bucket.size;
    bucket.size += Padded(place.count);
    offset += Padded(place.count);
  }
  buckets_.push_back({.offset = statistics_at_, .size = statistics_});
  for (const std::span<float> part : parts_) std::ranges::fill(part, 0.0F);  // the padding
  for (Bucket& bucket : buckets_) {
    bucket.sums.reserve(nodes_.size());
    for (std::size_t part = 0; part < nodes_.size(); ++part) {
      bucket.sums.emplace_back(nodes_[part].size(), Part(part).subspan(bucket.offset, bucket.size));
    }
  }
}

void GradientExchange::StartStep() {
  node_ = 0;
  shard_ = nodes_.front().begin;
  next_to_launch_ = 0;
  arrived_.clear();
  for (Bucket& bucket : buckets_) {
    for (ShardSum& sum : bucket.sums) sum.Start();
    bucket.missing = bucket.tensors.size();
    bucket.work.reset();
  }
}

std::span<float> GradientExchange::Place(std::size_t tensor) {
  const TensorPlace& place = places_[tensor];
  return buckets_[place.bucket].sums[node_].NextLeaf().subspan(place.offset, place.count);
}

at::Tensor GradientExchange::Of(const at::Tensor& parameter) {
  const float *const values = parameter.data_ptr<float>(), *const all = params_.All().data();
  const auto& ranges = params_.ranges();
  const auto found = std::ranges::find_if(
      ranges, [&](const NamedRange& range) { return all + range.offset == values; });
  if (found == ranges.end()) return {};
  return at::from_blob(Place(static_cast<std::size_t>(found - ranges.begin())).data(),
                       parameter.sizes());
}

void GradientExchange::Put(std::size_t tensor, std::span<const float> gradient) {
  TensorPlace& place = places_[tensor];
  PACELINE_CHECK(!place.put && gradient.size() == place.count, "each gradient once and whole");
  Bucket& bucket = buckets_[place.bucket];
  const std::span<float> wanted = Place(tensor);
  if (wanted.data() != gradient.data()) std::ranges::copy(gradient, wanted.begin());
  place.put = true;
  arrived_.push_back(tensor);
  if (--bucket.missing == 0) Commit(bucket);
}

void GradientExchange::Commit(Bucket& bucket) {
  bucket.sums[node_].Commit();
  LaunchReady();
}

void GradientExchange::FinishShard(std::span<const float> statistics) {
  for (std::size_t tensor = 0; tensor < places_.size(); ++tensor) {
    TensorPlace& place = places_[tensor];
    if (!place.put) {
      Bucket& bucket = buckets_[place.bucket];
      const std::span<float> leaf = bucket.sums[node_].NextLeaf();
      std::ranges::fill(leaf.subspan(place.offset, place.count), 0.0F);
      arrived_.push_back(tensor);
      if (--bucket.missing == 0) Commit(bucket);
    }
  }
  Bucket& last = buckets_.back();
  std::ranges::copy(statistics, last.sums[node_].NextLeaf().begin());
  Commit(last);
  for (TensorPlace& place : places_) place.put = false;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.tensors.size();
  order_ = std::exchange(arrived_, {});
  if (++shard_ == nodes_[node_].end && node_ + 1 < nodes_.size()) ++node_;
}

// A bucket is ready when all parts of it are complete.
void GradientExchange::LaunchReady() {
  if (options_.queue == nullptr && !options_.ready) return;
  for (; next_to_launch_ < buckets_.size(); ++next_to_launch_) {
    Bucket& bucket = buckets_[next_to_launch_];
    const bool ready = std::all_of(bucket.sums.begin(), bucket.sums.end(),
                                   [](const ShardSum& sum) { return sum.Complete(); });
    if (!ready) return;
    if (options_.queue == nullptr) {
      options_.ready(bucket.tensors);
      continue;
    }
    std::vector<std::span<float>> pieces;
    pieces.reserve(parts_.size());
    for (const std::span<float> part : parts_) {
      pieces.push_back(part.subspan(bucket.offset, bucket.size));
    }
    bucket.work = options_.queue->AllReduce(std::move(pieces));
  }
}

// One operation for everything: where it is not hidden behind backward, many cost more.
Status GradientExchange::ReduceAll() {
  const Instant started = options_.clock->Now();
  PACELINE_TRY(options_.engine->AllReduce(parts_));
  whole_ = {elements_ * sizeof(float), started, options_.clock->Now()};
  return {};
}

Status GradientExchange::Wait() {
  if (options_.engine != nullptr && options_.queue == nullptr) return ReduceAll();
  for (Bucket& bucket : buckets_) {
    if (bucket.work) PACELINE_TRY(bucket.work->Wait(options_.timeout));
  }
  return {};
}

std::span<float> GradientExchange::Gradient(std::size_t tensor) {
  const TensorPlace& place = places_[tensor];
  return Part(0).subspan(buckets_[place.bucket].offset + place.offset, place.count);
}

std::vector<GradientExchange::Timing> GradientExchange::Timings() const {
  std::vector<Timing> timings;
  if (options_.engine != nullptr && options_.queue == nullptr) timings.push_back(whole_);
  for (const Bucket& bucket : buckets_) {
    if (!bucket.work || !bucket.work->Done()) continue;
    timings.push_back(
        {bucket.size * sizeof(float), bucket.work->started(), bucket.work->finished()});
  }
  return timings;
}

}  // namespace paceline::train

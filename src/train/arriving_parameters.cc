#include "train/arriving_parameters.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

#include "base/thread.h"
#include "kernel/copy.h"

namespace paceline::train {

ArrivingParameters::ArrivingParameters(FlatTensors& params, FlatTensors& buffers,
                                       std::span<float> report, const Clock& clock)
    : params_(params), clock_(clock) {
  const auto add = [&](std::span<float> to) {
    places_.push_back({floats_, to});
    floats_ += to.size();
  };
  for (auto range = params.ranges().rbegin(); range != params.ranges().rend(); ++range) {
    add(params.Of(*range));
  }
  for (const NamedRange& range : buffers.ranges()) add(buffers.Of(range));
  add(report);
  missing_.resize(places_.size());
}

void ArrivingParameters::Start(Pull pull) {
  {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < places_.size(); ++i) missing_[i] = places_[i].to.size();
    running_ = true;
    timing_.started = clock_.Now();
  }
  thread_ = StartThread("pull", [this, pull = std::move(pull)] {
    Status ended =
        pull([this](std::uint64_t begin, std::span<const float> floats) { Take(begin, floats); });
    const MutexLock lock(mutex_);
    status_ = std::move(ended);
    timing_.finished = clock_.Now();
    running_ = false;
    changed_.notify_all();
  });
}

void ArrivingParameters::Take(std::uint64_t begin, std::span<const float> floats) {
  auto place = std::ranges::upper_bound(places_, begin, {}, &Place::begin) - 1;
  while (!floats.empty()) {
    const auto skip = static_cast<std::size_t>(begin - place->begin);
    const std::size_t count = std::min(floats.size(), place->to.size() - skip);
    kernel::CopyPart(place->to.subspan(skip, count), floats.first(count), floats_ * sizeof(float));
    {
      const MutexLock lock(mutex_);
      std::size_t& missing = missing_[static_cast<std::size_t>(place - places_.begin())];
      missing -= count;
      if (missing == 0) changed_.notify_all();
    }
    floats = floats.subspan(count);
    begin += count;
    ++place;
  }
}

void ArrivingParameters::AwaitPlaces(std::size_t first, std::size_t end) {
  const MutexLock lock(mutex_);
  const auto there = [&]() PACELINE_REQUIRES(mutex_) {
    return !running_ || std::all_of(missing_.begin() + static_cast<std::ptrdiff_t>(first),
                                    missing_.begin() + static_cast<std::ptrdiff_t>(end),
                                    [](std::size_t missing) { return missing == 0; });
  };
  if (there()) return;
  const Instant from = clock_.Now();
  while (!there()) changed_.wait(mutex_);
  waited_ += clock_.Now() - from;
}

Status ArrivingParameters::AwaitRest() {
  AwaitPlaces(params_.ranges().size(), places_.size());
  const MutexLock lock(mutex_);
  return running_ ? Status() : status_;
}

void ArrivingParameters::Join() {
  if (!thread_.joinable()) return;
  const Instant from = clock_.Now();
  thread_.join();
  waited_ += clock_.Now() - from;
  const MutexLock lock(mutex_);
  last_ = timing_;
}

Status ArrivingParameters::AwaitAll() {
  Join();
  const MutexLock lock(mutex_);
  return status_;
}

void ArrivingParameters::Await(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.has_storage()) return;
  const std::span<const float> all = params_.All();
  const auto* const at = static_cast<const float*>(parameter.data_ptr());
  if (std::less<>()(at, all.data()) || !std::less<>()(at, all.data() + all.size())) return;
  const auto offset = static_cast<std::size_t>(at - all.data());
  const auto& ranges = params_.ranges();
  const auto behind = std::ranges::upper_bound(ranges, offset, {}, &NamedRange::offset);
  const auto place = static_cast<std::size_t>(ranges.end() - behind);  // from the last to the first
  AwaitPlaces(place, place + 1);
  const MutexLock lock(mutex_);
  if (missing_[place] > 0) throw std::runtime_error("parameters did not arrive");
}

}  // namespace paceline::train

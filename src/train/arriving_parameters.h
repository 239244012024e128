#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ps/store.h"
#include "train/parameter_gate.h"
#include "train/parameters.h"

namespace paceline::train {

// The parameters of a module while a pull in a thread of its own brings them, so that the forward
// pass begins with the first ones. They lie in the dense buffer of the servers from the last to the
// first, then come the statistics and a report of the step. Used by one thread; borrows everything.
class ArrivingParameters final : public ParameterGate {
 public:
  ArrivingParameters(FlatTensors& params, FlatTensors& buffers, std::span<float> report,
                     const Clock& clock);
  ~ArrivingParameters() override = default;
  ArrivingParameters(const ArrivingParameters&) = delete;
  ArrivingParameters& operator=(const ArrivingParameters&) = delete;

  std::size_t floats() const { return floats_; }  // of the dense buffer

  // After AwaitAll(): the pull hands over floats of the dense buffer, each once.
  using Pull = std::function<Status(const ps::TakeDense& take)>;
  void Start(Pull pull);
  // Statistics and report are there.
  Status AwaitRest();
  // The pull has ended; the same answer until the next one starts.
  Status AwaitAll();
  void Join();  // the same, whatever the answer
  void Await(const at::Tensor& parameter) override;

  // So long was waited since the last call.
  std::chrono::nanoseconds TakeWaited() { return std::exchange(waited_, {}); }
  struct Timing {
    Instant started{}, finished{};
  };
  const Timing& last_pull() const { return last_; }  // that has ended

 private:
  struct Place {
    std::uint64_t begin = 0;  // in the dense buffer
    std::span<float> to;
  };

  void Take(std::uint64_t begin, std::span<const float> floats) PACELINE_EXCLUDES(mutex_);
  // Until there is nothing missing of these places, or the pull has ended.
  void AwaitPlaces(std::size_t first, std::size_t end) PACELINE_EXCLUDES(mutex_);

  const FlatTensors& params_;
  const Clock& clock_;
  std::vector<Place> places_;  // in the order of the dense buffer
  std::size_t floats_ = 0;
  std::chrono::nanoseconds waited_{};
  Timing last_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::size_t> missing_ PACELINE_GUARDED_BY(mutex_);  // floats, by place
  bool running_ PACELINE_GUARDED_BY(mutex_) = false;
  Status status_ PACELINE_GUARDED_BY(mutex_);
  Timing timing_ PACELINE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last
};

}  // namespace paceline::train

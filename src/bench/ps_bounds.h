#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"

namespace paceline::bench {

// What threads of this machine reach when they do only what they must, one transfer at a time.
// Thread-compatible.
class MoveBounds {
 public:
  // Makes the buffers of `bytes` and touches them.
  static Result<MoveBounds> Make(std::size_t bytes);
  MoveBounds(MoveBounds&&) noexcept;
  ~MoveBounds();

  // Seconds. One thread copies into shared memory; then another one copies out of it.
  double Memory();
  // Over a loopback connection; one thread writes, another one reads.
  Result<double> Tcp();
  // One thread makes a step of plain SGD with gradients of `bytes`: what every push costs a server.
  double Optimizer();

 private:
  struct State;
  explicit MoveBounds(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::bench

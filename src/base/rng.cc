#include "base/rng.h"

#include <cmath>
#include <numbers>

namespace paceline {

float CounterRng::Normal() {
  // 1 - u is in (0, 1], so the logarithm is finite.
  const float radius = std::sqrt(-2.0F * std::log(1.0F - Uniform()));
  return radius * std::cos(2.0F * std::numbers::pi_v<float> * Uniform());
}

}  // namespace paceline

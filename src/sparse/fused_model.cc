#include "sparse/fused_model.h"

#include <functional>
#include <numeric>

namespace paceline::sparse {

std::size_t DenseSpec::floats() const {
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

}  // namespace paceline::sparse

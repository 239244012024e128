#include "algo/best_so_far.h"

#include <cmath>

namespace paceline::algo {

bool BestSoFar::Judge(Step done, double figure, Better better) {
  if (done <= judged) return false;
  judged = done;
  const bool wins = better == Better::kHigher ? figure > value : figure < value;
  if (!std::isfinite(figure) || (known && !wins)) {
    ++since;
    return false;
  }
  known = true;
  value = figure;
  step = done;
  since = 0;
  return true;
}

}  // namespace paceline::algo

#pragma once

#include <cstdint>

#include "base/ids.h"

namespace paceline::algo {

// Which of two figures of an evaluation is the better one.
enum class Better { kLower, kHigher };

// The best evaluation of a run and how long ago it was. A value that travels with the run's
// position, so that a resumed run goes on counting.
struct BestSoFar {
  bool known = false;  // false: there was no evaluation with a finite figure yet
  double value = 0;
  Step step;                // whose parameters had it: that many steps were done
  Step judged;              // the newest evaluation that counted; 0: none
  std::uint64_t since = 0;  // evaluations after the best one

  // Counts the evaluation after `done` steps, more than 0; a repetition of one that counted already
  // changes nothing. True: it is the best so far. Equal is not better; NaN never is.
  bool Judge(Step done, double figure, Better better);

  friend bool operator==(const BestSoFar&, const BestSoFar&) = default;
};

}  // namespace paceline::algo

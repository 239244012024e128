#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "ps/job_spec.h"

namespace paceline::ps {

// In which order the dense floats of a server lie in an answer: a trainer begins with what comes
// first.
enum class DenseOrder {
  kFromFirst,
  kFromLast,  // in runs, the last one first; a run itself is not turned around
};

// Floats that stay together.
struct DenseRun {
  std::size_t begin = 0;
  std::size_t count = 0;

  friend bool operator==(const DenseRun&, const DenseRun&) = default;
};
// What trainer and server agree on: all of the server's floats, in the order in which they are
// sent.
std::vector<DenseRun> DenseRuns(std::size_t floats, DenseOrder order);

// A server's floats as they are sent; `copied`, if there is one, is told how many are there.
void CopyInOrder(std::span<const float> floats, DenseOrder order, std::span<float> out,
                 const std::function<void(std::size_t)>& copied = nullptr);

// The pieces of a server, cut where runs are, in the order in which they are sent.
std::vector<DensePiece> PiecesInOrder(std::span<const DensePiece> pieces, DenseOrder order);

}  // namespace paceline::ps

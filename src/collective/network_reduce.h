#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "algo/schedule.h"
#include "base/status.h"
#include "collective/engine.h"
#include "collective/tree_sum.h"
#include "net/mesh.h"

namespace paceline::collective {

// Adds up arrays over the network: executes the schedules of algo/schedule.h on a mesh, cut into
// segments that follow one another closely. Thread-compatible.
class NetworkReduce {
 public:
  struct Options {
    std::vector<Rank> ranks;          // of the participants on the mesh, by participant
    std::size_t self = 0;             // participant
    algo::Participants participants;  // what each brings
    std::size_t segment_bytes = 0;    // that a participant sends at a time, about
    std::size_t ahead = 2;            // segments under way beyond the current one
    algo::NetworkSpeed speed;
  };
  NetworkReduce(net::Mesh& mesh, const Options& options);

  // `parts` are this participant's arrays of `count` floats, by its nodes. The result is in
  // parts[0]. `operation` numbers the call: the same on all participants, new each time. After an
  // error the mesh has failed.
  Status AllReduce(std::span<float* const> parts, std::size_t count, std::uint64_t operation,
                   std::chrono::steady_clock::time_point deadline);
  // Only SliceOf(count, participants, self) of parts[0] is defined afterwards.
  Status ReduceScatter(std::span<float* const> parts, std::size_t count, std::uint64_t operation,
                       std::chrono::steady_clock::time_point deadline);

  // What AllReduce of `count` floats sends, headers included.
  Traffic Predict(std::size_t count) const;

 private:
  class Run;
  struct Shape {
    algo::Algorithm algorithm = algo::Algorithm::kDirect;
    std::size_t segment = 0;  // elements
    std::size_t segments = 0;

    std::size_t SizeOf(std::size_t index, std::size_t count) const {
      return index + 1 == segments ? count - index * segment : segment;
    }
  };
  Shape ShapeFor(std::size_t count, algo::Goal goal) const;

  // The additions of each exchange of an algorithm; made when first used.
  TreeSum& SumFor(algo::Algorithm algorithm, std::size_t index, const algo::Exchange& exchange);

  std::vector<float> TakeScratch(std::size_t floats);

  net::Mesh& mesh_;
  Options options_;
  std::map<std::pair<algo::Algorithm, std::size_t>, TreeSum> sums_;
  std::vector<std::vector<float>> scratch_;  // free buffers for what arrives
};

}  // namespace paceline::collective

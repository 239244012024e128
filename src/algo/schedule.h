#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algo/reduction_tree.h"
#include "algo/shard_layout.h"

namespace paceline::algo {

// How participants (hosts, or ranks without shared memory) add up their parts over a network.
// Every algorithm adds in the order of the fixed tree; a ring cannot, since its order depends on
// the number of participants, and `direct` moves as few bytes as a ring.
//
//                     exchanges      bytes that each sends, B = bytes of one part, P participants
//   one-shot          1              (P-1) B                best for small B
//   direct            2              2 (P-1)/P B            fewest bytes, P-1 messages at a time
//   halving-doubling  2 log2 P       2 (P-1)/P B            one message at a time; P a power of
//                                                           two, each with one equal subtree
enum class Algorithm { kOneShot, kDirect, kHalvingDoubling };

const char* AlgorithmName(Algorithm algorithm);

// The participants of a reduction: what each of them brings. Parts are subtrees; together they
// cover the root.
struct Participants {
  std::vector<std::vector<TreeNode>> nodes;  // by participant, each in order of shards

  std::size_t size() const { return nodes.size(); }
  TreeNode Root() const;
};

bool Possible(Algorithm algorithm, const Participants& participants);

// One message: `slice` of every part of the sender (kParts), or of its result so far (kResult).
struct Transfer {
  enum class What { kParts, kResult };
  std::size_t peer = 0;
  What what = What::kParts;
  Slice slice;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// Messages that are under way at the same time, then the addition of what came. Added are the
// values of this participant and of those that sent parts or partial results: together they make
// `into`, whose value over `reduce` becomes the result so far.
struct Exchange {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  Slice reduce;  // empty: nothing is added
  TreeNode into;
};

// What participant `self` does to add up `count` elements. Without the last phase of spreading the
// result when `scatter`: participant p then ends with SliceOf(count, P, p) (direct only).
enum class Goal { kEverywhere, kScatter };
std::vector<Exchange> PlanReduction(Algorithm algorithm, const Participants& participants,
                                    std::size_t self, std::size_t count,
                                    Goal goal = Goal::kEverywhere);

// The order in which the exchanges of several segments are started and completed, so that the
// network is never idle: while segment s is in exchange e, segment s+1 is in exchange e-1, and the
// first exchanges of `ahead` more are under way. The same on every participant, so that messages
// match without being searched for.
struct PipelineStep {
  enum class Kind { kStart, kComplete };
  Kind kind = Kind::kStart;
  std::size_t segment = 0;
  std::size_t exchange = 0;

  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};
std::vector<PipelineStep> PipelineOrder(std::size_t segments, std::size_t exchanges,
                                        std::size_t ahead);

// What a plan costs its participant.
struct Cost {
  std::uint64_t exchanges = 0;
  std::uint64_t messages = 0;       // sent, one for each part
  std::uint64_t payload_bytes = 0;  // sent, floats
  std::uint64_t added_bytes = 0;    // read by additions
  std::uint64_t at_once = 0;        // messages to different participants at the same time, at most

  Cost& operator+=(const Cost& other);
};
Cost CostOf(std::span<const Exchange> plan, const Participants& participants, std::size_t self);

// How long things take on a network, from measurement (`paceline perf`); docs/benchmarks.md says
// where the defaults come from.
struct NetworkSpeed {
  double seconds_per_exchange = 70e-6;  // until the slowest message of an exchange has arrived
  double seconds_per_message = 15e-6;   // of the processor, per message sent
  double seconds_per_byte = 8.0 / 1e9;  // of the slowest link: 1 Gb/s
  double seconds_per_added_byte = 0.15e-9;
  double contention = 0.003;  // share of the rate lost for each further message at the same time
};
double PredictSeconds(const Cost& cost, const NetworkSpeed& speed);

// The algorithm with the smallest prediction for the slowest participant.
Algorithm ChooseAlgorithm(const Participants& participants, std::size_t count,
                          const NetworkSpeed& speed);

}  // namespace paceline::algo

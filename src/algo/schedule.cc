#include "algo/schedule.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace paceline::algo {

namespace {

using What = Transfer::What;

std::vector<Exchange> PlanOneShot(const Participants& participants, std::size_t self,
                                  std::size_t count) {
  Exchange exchange{.reduce = {0, count}, .into = participants.Root()};
  for (std::size_t peer = 0; peer < participants.size(); ++peer) {
    if (peer == self) continue;
    exchange.sends.push_back({peer, What::kParts, {0, count}});
    exchange.receives.push_back({peer, What::kParts, {0, count}});
  }
  return {exchange};
}

// Every participant starts with the peer after it, so that not all send to the same one first.
std::vector<Exchange> PlanDirect(const Participants& participants, std::size_t self,
                                 std::size_t count, Goal goal) {
  const std::size_t size = participants.size();
  const Slice mine = SliceOf(count, size, self);
  Exchange gather{.reduce = mine, .into = participants.Root()}, spread;
  for (std::size_t i = 1; i < size; ++i) {
    const std::size_t peer = (self + i) % size;
    const Slice theirs = SliceOf(count, size, peer);
    gather.sends.push_back({peer, What::kParts, theirs});
    gather.receives.push_back({peer, What::kParts, mine});
    spread.sends.push_back({peer, What::kResult, mine});
    spread.receives.push_back({peer, What::kResult, theirs});
  }
  if (goal == Goal::kScatter) return {gather};
  return {gather, spread};
}

std::vector<Exchange> PlanHalvingDoubling(const Participants& participants, std::size_t self,
                                          std::size_t count) {
  std::vector<Exchange> down, up;
  Slice slice{0, count};
  TreeNode node = participants.nodes[self].front();
  for (std::size_t distance = 1; distance < participants.size(); distance *= 2) {
    const std::size_t peer = self ^ distance;
    const bool left = (self & distance) == 0;
    const std::size_t middle = slice.begin + SliceOf(slice.size(), 2, 0).end;
    const Slice low{slice.begin, middle}, high{middle, slice.end};
    const Slice keep = left ? low : high, give = left ? high : low;
    node = left ? TreeNode{node.begin, node.end + node.size()}
                : TreeNode{node.begin - node.size(), node.end};
    // The first time the values are still parts; a participant has exactly one.
    const What what = distance == 1 ? What::kParts : What::kResult;
    down.push_back({.sends = {{peer, what, give}},
                    .receives = {{peer, what, keep}},
                    .reduce = keep,
                    .into = node});
    up.push_back(
        {.sends = {{peer, What::kResult, keep}}, .receives = {{peer, What::kResult, give}}});
    slice = keep;
  }
  down.insert(down.end(), up.rbegin(), up.rend());
  return down;
}

std::size_t PartsOf(const Participants& participants, std::size_t participant, What what) {
  return what == What::kParts ? participants.nodes[participant].size() : 1;
}

}  // namespace

const char* AlgorithmName(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kOneShot: return "one-shot";
    case Algorithm::kDirect: return "direct";
    case Algorithm::kHalvingDoubling: return "halving-doubling";
  }
  return "unknown";
}

TreeNode Participants::Root() const {
  TreeNode root = nodes.front().front();
  for (const auto& list : nodes) {
    for (const TreeNode& node : list) {
      root.begin = std::min(root.begin, node.begin);
      root.end = std::max(root.end, node.end);
    }
  }
  return root;
}

bool Possible(Algorithm algorithm, const Participants& participants) {
  if (algorithm != Algorithm::kHalvingDoubling) return true;
  const std::uint64_t size = participants.nodes.front().front().size();
  std::uint64_t begin = 0;
  return participants.size() >= 2 && std::has_single_bit(participants.size()) &&
         std::has_single_bit(size) &&
         std::all_of(participants.nodes.begin(), participants.nodes.end(), [&](const auto& nodes) {
           const bool next = nodes.size() == 1 && nodes.front() == TreeNode{begin, begin + size};
           begin += size;
           return next;
         });
}

std::vector<Exchange> PlanReduction(Algorithm algorithm, const Participants& participants,
                                    std::size_t self, std::size_t count, Goal goal) {
  PACELINE_CHECK(self < participants.size(), "a participant");
  PACELINE_CHECK(goal == Goal::kEverywhere || algorithm == Algorithm::kDirect,
                 "only the direct algorithm can stop half way");
  PACELINE_CHECK(Possible(algorithm, participants), "an algorithm that fits the participants");
  switch (algorithm) {
    case Algorithm::kOneShot: return PlanOneShot(participants, self, count);
    case Algorithm::kDirect: return PlanDirect(participants, self, count, goal);
    case Algorithm::kHalvingDoubling: return PlanHalvingDoubling(participants, self, count);
  }
  return {};
}

std::vector<PipelineStep> PipelineOrder(std::size_t segments, std::size_t exchanges,
                                        std::size_t ahead) {
  using Kind = PipelineStep::Kind;
  std::vector<PipelineStep> order;
  order.reserve(2 * segments * exchanges);
  std::size_t started = 0;
  for (std::size_t tick = 0; exchanges > 0 && tick + 1 < segments + exchanges; ++tick) {
    for (; started < std::min(segments, tick + 1 + ahead); ++started) {
      order.push_back({Kind::kStart, started, 0});
    }
    for (std::size_t exchange = 0; exchange < exchanges && exchange <= tick; ++exchange) {
      const std::size_t segment = tick - exchange;
      if (segment >= segments) continue;
      order.push_back({Kind::kComplete, segment, exchange});
      if (exchange + 1 < exchanges) order.push_back({Kind::kStart, segment, exchange + 1});
    }
  }
  return order;
}

Cost& Cost::operator+=(const Cost& other) {
  exchanges += other.exchanges;
  messages += other.messages;
  payload_bytes += other.payload_bytes;
  added_bytes += other.added_bytes;
  at_once = std::max(at_once, other.at_once);
  return *this;
}

Cost CostOf(std::span<const Exchange> plan, const Participants& participants, std::size_t self) {
  Cost cost{.exchanges = plan.size()};
  for (const Exchange& exchange : plan) {
    cost.at_once = std::max<std::uint64_t>(cost.at_once, exchange.sends.size());
    for (const Transfer& send : exchange.sends) {
      const std::size_t parts = PartsOf(participants, self, send.what);
      cost.messages += parts;
      cost.payload_bytes += parts * send.slice.size() * sizeof(float);
    }
    if (exchange.reduce.size() == 0) continue;
    std::size_t values =
        PartsOf(participants, self,
                exchange.receives.empty() ? What::kParts : exchange.receives.front().what);
    for (const Transfer& receive : exchange.receives) {
      values += PartsOf(participants, receive.peer, receive.what);
    }
    cost.added_bytes += values * exchange.reduce.size() * sizeof(float);
  }
  return cost;
}

// Adding and handing over messages overlap with the transfer of other segments.
double PredictSeconds(const Cost& cost, const NetworkSpeed& speed) {
  const double others = cost.at_once > 1 ? static_cast<double>(cost.at_once - 1) : 0;
  const double wire = static_cast<double>(cost.payload_bytes) * speed.seconds_per_byte *
                      (1 + speed.contention * others);
  const double processor = static_cast<double>(cost.messages) * speed.seconds_per_message +
                           static_cast<double>(cost.added_bytes) * speed.seconds_per_added_byte;
  return static_cast<double>(cost.exchanges) * speed.seconds_per_exchange +
         std::max(wire, processor);
}

Algorithm ChooseAlgorithm(const Participants& participants, std::size_t count,
                          const NetworkSpeed& speed) {
  Algorithm best = Algorithm::kDirect;
  double best_seconds = 0;
  bool any = false;
  for (const Algorithm algorithm :
       {Algorithm::kDirect, Algorithm::kOneShot, Algorithm::kHalvingDoubling}) {
    if (!Possible(algorithm, participants)) continue;
    double slowest = 0;
    for (std::size_t self = 0; self < participants.size(); ++self) {
      const auto plan = PlanReduction(algorithm, participants, self, count);
      slowest = std::max(slowest, PredictSeconds(CostOf(plan, participants, self), speed));
    }
    if (!any || slowest < best_seconds) {
      best = algorithm;
      best_seconds = slowest;
      any = true;
    }
  }
  return best;
}

}  // namespace paceline::algo

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ps/message_pool.h"

namespace paceline::ps {

// The sum of several pushes, with the memory that its spans point to. Moves, does not copy.
struct PushSum {
  Push push;  // its dense floats: of one push alone
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::vector<float>> values;
  // Dense floats that are still to be added in this order, of messages of a round.
  std::vector<std::span<const float>> dense;
};
// Of one push alone, which keeps the memory.
PushSum SumOfOne(const Push& push);

// Adds `leaves`, all as long as `sum`, in the order of the fixed tree over them. At least one.
class TreeAdder {
 public:
  void Add(std::span<const std::span<const float>> leaves, std::span<float> sum);

 private:
  std::vector<float> scratch_;
};

// Pushes that wait until all trainers have sent theirs of the same batch. Thread-compatible. Who
// has to send one is the caller's knowledge.
class SyncRounds {
 public:
  // `message` is one that DecodePush takes, of a batch and trainer that it has not got.
  void Add(std::uint64_t batch, std::uint64_t trainer, KeptMessage message);

  bool Has(std::uint64_t batch, std::uint64_t trainer) const;

  // The sum of a batch over those who pushed it, in the order of trainers; a row over those who
  // pushed the row. Ids that several pushed come in ascending order. The learning rate is the first
  // trainer's. Dense floats, and tables that only one has pushed, stay in the messages until
  // Forget(); dense floats are not added yet.
  PushSum Sum(std::uint64_t batch) const;
  // After its sum was applied.
  void Forget(std::uint64_t batch) { rounds_.erase(batch); }

  std::size_t pushes() const;
  std::size_t bytes() const;
  using Visitor = std::function<Status(std::span<const std::byte> message)>;
  Status ForEach(const Visitor& visit) const;

 private:
  using Round = std::map<std::uint64_t, KeptMessage>;  // by trainer
  std::map<std::uint64_t, Round> rounds_;              // by batch
};

}  // namespace paceline::ps

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "algo/batch_plan.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/bytes.h"

namespace paceline::member {

// The samples of a run whose workers do not step together, and how they are lent.
struct LeasePlan {
  std::uint64_t total = 0;  // positions of the run; 0: nothing is lent
  std::uint64_t size = 0;   // of one lease, except the last

  bool enabled() const { return total > 0; }
  friend bool operator==(const LeasePlan&, const LeasePlan&) = default;
};

// A range of positions that one worker at a time computes, from its first to its last.
struct Lease {
  std::uint64_t number = 0;  // covers [number * size, number * size + size)
  algo::PositionRange range;
  std::uint64_t done = 0;  // positions from the start of the range that are known to be applied
  MemberId holder;         // 0: waits for somebody

  friend bool operator==(const Lease&, const Lease&) = default;
};

// Who computes which samples when workers do not step together: every position belongs to one
// lease, a lease has one holder, and what a dead holder has not finished goes to the next one.
// `done` is a lower bound, because a holder may die between an applied batch and its report;
// whoever applies batches must know by (lease, batch) what it has applied already. Pure;
// thread-compatible.
class LeaseLedger {
 public:
  LeaseLedger() = default;
  explicit LeaseLedger(const LeasePlan& plan) : plan_(plan) {}

  // The one that `member` holds already, else the oldest that nobody holds, else a fresh one;
  // nothing when all samples are done or in other hands.
  std::optional<Lease> Take(MemberId member);

  // `done` positions of lease `number` are applied; less than before is ignored. kFenced when
  // `member` is not its holder (any more), kProtocol beyond its end. True: the lease is finished.
  Result<bool> Advance(MemberId member, std::uint64_t number, std::uint64_t done);

  // The member is gone: returns what it held.
  std::vector<Lease> GiveBack(MemberId member);

  const LeasePlan& plan() const { return plan_; }
  const std::map<std::uint64_t, Lease>& open() const { return open_; }  // lent or given back
  bool complete() const { return next_ == End() && open_.empty(); }
  std::uint64_t positions_done() const;

  void Write(wire::ByteWriter& writer) const;
  static LeaseLedger Read(wire::ByteReader& reader);
  friend bool operator==(const LeaseLedger&, const LeaseLedger&) = default;

 private:
  std::uint64_t End() const;  // number behind the last lease

  LeasePlan plan_;
  std::uint64_t next_ = 0;  // the first that was never lent
  std::map<std::uint64_t, Lease> open_;
};

}  // namespace paceline::member

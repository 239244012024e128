#pragma once

#include <cstdint>
#include <map>

#include "base/status.h"
#include "wire/bytes.h"

namespace paceline::ps {

// Which pushes a server has applied: each at most once, whoever repeats it. Trainers work on leases
// of samples (docs/elastic.md) and push batch after batch of one; after a death another trainer
// continues the lease, and may begin with batches that this server has already. Pure;
// thread-compatible. Part of a server's snapshot.
class PushLedger {
 public:
  enum class Answer {
    kApply,      // the next of its lease: apply it, then call Applied()
    kDuplicate,  // was applied: acknowledge it again
  };

  // kProtocol when a batch before this one is missing: nobody skips.
  Result<Answer> Check(std::uint64_t lease, std::uint64_t batch) const;
  // After Check() said kApply. `last`: no further batch of this lease will come.
  void Applied(std::uint64_t lease, std::uint64_t batch, bool last);

  // Batches of a lease that are applied: where a new holder may begin.
  std::uint64_t NextBatch(std::uint64_t lease) const;
  std::uint64_t pushes() const { return pushes_; }

  struct Progress {
    std::uint64_t next = 0;
    bool finished = false;

    friend bool operator==(const Progress&, const Progress&) = default;
  };
  // Leases below are finished; those behind are few: what is lent now, and what finished early.
  std::uint64_t finished_below() const { return finished_below_; }
  const std::map<std::uint64_t, Progress>& open() const { return open_; }

  void Write(wire::ByteWriter& writer) const;
  static PushLedger Read(wire::ByteReader& reader);
  friend bool operator==(const PushLedger&, const PushLedger&) = default;

 private:
  std::uint64_t finished_below_ = 0;
  std::map<std::uint64_t, Progress> open_;
  std::uint64_t pushes_ = 0;
};

}  // namespace paceline::ps

#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "ps/push_ledger.h"
#include "ps/push_message.h"
#include "ps/sync_rounds.h"
#include "wire/bytes.h"

namespace paceline::ps {

// How far the trainers of a job are: the ledger, and the version that follows from it. Pure;
// thread-compatible.
class Progress {
 public:
  // 0 trainers: leases are given out, and there is no version.
  explicit Progress(std::uint64_t trainers) : batches_(trainers), finished_(trainers) {}

  // As PushLedger; also kProtocol for a lease that no trainer has.
  Result<PushLedger::Answer> Check(const Push& push) const;
  void Applied(const Push& push);
  // What version() will be after Applied().
  std::uint64_t VersionAfter(const Push& push) const;

  // Whether exactly these pushes wait: those of batches that not all trainers have sent, no
  // more of a trainer than it may have on their way; none when pushes do not wait.
  bool Explains(const SyncRounds& rounds, bool together) const;

  // Batches below this are there of every trainer that has so many.
  std::uint64_t version() const { return version_; }
  std::uint64_t pushes() const { return ledger_.pushes(); }
  const PushLedger& ledger() const { return ledger_; }
  std::uint64_t NextBatch(std::uint64_t lease) const { return ledger_.NextBatch(lease); }

  void Write(wire::ByteWriter& writer) const;
  static Progress Read(wire::ByteReader& reader, std::uint64_t trainers);
  friend bool operator==(const Progress&, const Progress&) = default;

 private:
  std::uint64_t VersionWith(std::uint64_t trainer, std::uint64_t batches, bool finished) const;

  PushLedger ledger_;
  // By trainer: batches that it has pushed, and whether it pushes no more. The ledger forgets a
  // finished lease's number.
  std::vector<std::uint64_t> batches_;
  std::vector<std::uint8_t> finished_;
  std::uint64_t version_ = 0;
};

}  // namespace paceline::ps

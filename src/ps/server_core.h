#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"
#include "ps/job_spec.h"
#include "ps/memory_offer.h"
#include "ps/message_pool.h"
#include "ps/push_ledger.h"
#include "ps/store.h"

namespace paceline::ps {

enum class Wal {
  kAlways,  // each push is on disk before it is acknowledged
  kGroup,   // the same, several at a time
  kOff,     // only snapshots are kept
};
// "always", "group", "off".
Result<Wal> ParseWal(std::string_view name);

struct ServerCoreOptions {
  disk::FileSystem* file_system = nullptr;  // outlives the core
  std::string folder;  // exists; snapshots and log; empty: everything is in memory only
  std::uint32_t index = 0;
  std::uint32_t servers = 1;
  Wal wal = Wal::kGroup;
  std::chrono::milliseconds group{20};
  std::uint64_t snapshot_log_bytes = std::uint64_t{1} << 30;  // a longer log asks for a snapshot
  // Folders of all servers of an earlier run, of whatever number, to begin with; the own folder is
  // empty then.
  std::vector<std::string> load_from;
  std::string table_store = "memory";              // or rocksdb
  std::size_t hot_bytes = std::size_t{256} << 20;  // of each table on rocksdb
};

// How many pushes came late by so many other pushes.
struct StalenessHistogram {
  std::vector<std::uint64_t> counts;  // [0], [1], [2,3], [4,7] ...
};

struct ServerStatus {
  bool configured = false;
  bool initialised = false;
  std::uint64_t version = 0;
  std::uint64_t pushes = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t rows = 0;  // of all tables
  std::vector<TableStatus> tables;
  std::uint64_t dense_floats = 0;
  std::uint64_t table_bytes = 0;    // memory of all tables
  std::uint64_t dense_bytes = 0;    // values and optimiser
  std::uint64_t waiting_bytes = 0;  // pushes that wait for other trainers
  std::uint64_t log_bytes = 0;      // since the last snapshot
  std::uint64_t snapshots = 0;
  StalenessHistogram staleness;
  PushLedger ledger;  // what was applied, by lease
};

// What was found when a server came back.
struct ServerRecovery {
  bool snapshot = false;
  std::vector<std::string> damaged;  // newer snapshots that could not be used, and why
  std::uint64_t replayed = 0;        // pushes of the log
  std::uint64_t torn_bytes = 0;      // never acknowledged
};

// What one server keeps and does, without a network: dense blocks, tables, ledger, log and
// snapshots. Thread-safe. Pushes are applied one after the other in the order of the log, so that
// recovery gives the same bits; pulls run beside them.
class ServerCore {
 public:
  static Result<std::unique_ptr<ServerCore>> Open(const ServerCoreOptions& options);
  ~ServerCore();
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;

  const ServerRecovery& recovery() const;

  // The first call makes the tables; later ones must say the same. kMismatch names what differs.
  Status Configure(const JobSpec& spec);

  // `dense`: what DensePiecesOf() gives this server. Ignored when there are values already.
  Status Initialise(std::span<const float> dense);

  struct Pushed {
    bool duplicate = false;
    std::uint64_t record = 0;  // durable when the log's record is; 0: nothing to wait for
  };
  // `message` is of EncodePush, on an address divisible by 8, and free after the call. A push that
  // came before is a duplicate and changes nothing. kProtocol, kInvalidArgument: refused, nothing
  // changed. kUnavailable before Configure() and Initialise().
  // `dense_is_finite`: whoever received the message has seen that (ArrivingPush).
  Result<Pushed> Push(std::span<const std::byte> message, bool dense_is_finite = false);
  // The same without a copy: keeps the memory and leaves other, of any length, in its place.
  Result<Pushed> Push(MessageBytes& message, bool dense_is_finite = false);
  // Of a trainer in this process: a message is only made where one has to be kept.
  Result<Pushed> Push(const ps::Push& push, bool dense_is_finite = false);
  // The same of a trainer whose memory this one sees: `push` was decoded from `message`, where it
  // lies, and its ids are free after the call. Not for pushes that wait for those of others.
  Result<Pushed> Push(const ps::Push& push, const KeptMessage& message, bool dense_is_finite);
  // Calls `done` once, when the record is durable or never will be.
  void WhenDurable(std::uint64_t record, std::function<void(const Status&)> done);

  // `request.dense` has this server's floats. PullAnswer::pushes has one number. kAborted when
  // Interrupt() was called or `stopped` says so while it waits for the version.
  // While the dense floats are copied, the last part of a pull, `copied` may be told how many are
  // there, with what will be returned.
  using DenseCopied = std::function<void(const PullAnswer& answer, std::size_t floats)>;
  Result<PullAnswer> Pull(const PullRequest& request, const std::function<bool()>& stopped,
                          const DenseCopied& copied = nullptr);
  // For trainers that read dense values where they lie. After a Pull() of `request` without its
  // dense floats: their count of changes; odd: they have to be copied. kUnavailable: not shared.
  std::uint64_t DenseChanges(const PullRequest& request, const PullAnswer& answer) const;
  Result<MemoryOffer> OfferDense();
  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table, std::uint64_t call);
  Result<std::uint64_t> NextBatch(std::uint64_t lease);

  // Makes everything durable that was pushed so far, and the log short. Pushes wait only while
  // dense floats are copied and the cache of a table on disk is written out.
  Status Snapshot();
  // The log is long, or a push has asked for one.
  bool WantsSnapshot() const;

  ServerStatus StatusNow() const;
  // Every pull that waits returns kAborted, now and later.
  void Interrupt();

 private:
  class Impl;
  explicit ServerCore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::ps

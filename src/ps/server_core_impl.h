#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ps/change_log.h"
#include "ps/progress.h"
#include "ps/server_core.h"
#include "ps/server_values.h"
#include "ps/snapshot_reader.h"
#include "ps/sync_rounds.h"

namespace paceline::ps {

// Locks: `snapshotting_` first, then `writer_`, then `state_`. Whatever changes values holds
// `writer_`; pulls take `state_` for a moment.
class ServerCore::Impl {
 public:
  explicit Impl(const ServerCoreOptions& options) : options_(options) {}

  const ServerRecovery& recovery() const { return recovery_; }

  Status Configure(const JobSpec& spec);
  Status Initialise(std::span<const float> dense);
  Result<Pushed> Push(MessageBytes& message, bool dense_is_finite);
  // Takes no memory of the pool in exchange: whoever needs none would free it.
  Result<Pushed> PushKept(const SharedMessage& message, bool dense_is_finite);
  Result<Pushed> Push(const ps::Push& push, bool dense_is_finite);
  Result<Pushed> Push(const ps::Push& push, const KeptMessage& message, bool dense_is_finite);
  Result<PullAnswer> Pull(const PullRequest& request, const std::function<bool()>& stopped,
                          const DenseCopied& copied);
  std::uint64_t DenseChanges(const PullRequest& request, const PullAnswer& answer) const;
  Result<MemoryOffer> OfferDense();
  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table, std::uint64_t call);
  Result<std::uint64_t> NextBatch(std::uint64_t lease);
  ServerStatus StatusNow() const;
  void Interrupt();

  // Before anything else, once: what the folder has, or what `load_from` has.
  Status Recover();
  Status Snapshot();
  bool WantsSnapshot() const;
  void WhenDurable(std::uint64_t record, std::function<void(const Status&)> done);
  bool Logs() const { return log_ != nullptr && options_.wal != Wal::kOff; }

 private:
  // What a push changes: itself, or the sums of the rounds that it completes.
  using Change = std::vector<PushSum>;

  Result<ServerValues*> Configured() const;
  Result<ServerValues*> Ready() const;
  // `message`: what `push` was decoded from; none where nobody keeps it.
  Result<Pushed> PushOnce(ps::Push push, const KeptMessage& message, bool dense_is_finite);
  Change Plan(ServerValues& values, const ps::Push& push, const KeptMessage& message)
      PACELINE_REQUIRES(writer_);
  Status Apply(ServerValues& values, const ps::Push& push, const Change& change)
      PACELINE_REQUIRES(writer_);
  // Whether nothing is missing that a pull waits for.
  bool IsDue(const PullRequest& request) const PACELINE_REQUIRES(state_);
  // The same, once this push is applied.
  bool IsDueAfter(const ps::Push& push, const PullRequest& request) const PACELINE_REQUIRES(state_);
  Result<PreparedPull> SeekRows(ServerValues& values, const PullRequest& request) const;
  // A pull whose caller waits. While it is claimed its memory is that of whoever applies a push.
  struct PullInWaiting {
    const PullRequest* request = nullptr;
    PreparedPull* prepared = nullptr;
    bool is_claimed = false;
    PullAnswer answer = {};  // of when it got its rows
  };
  std::vector<WaitingPull> ClaimPulls(const ps::Push& push) PACELINE_REQUIRES(state_);
  void ReturnPulls() PACELINE_REQUIRES(state_);
  PullAnswer AnswerNow() const PACELINE_REQUIRES(state_);
  // Until nothing is missing; `prepared` may have got its rows meanwhile.
  Result<PullAnswer> Await(const PullRequest& request, PreparedPull& prepared,
                           const std::function<bool()>& stopped);
  Status AwaitDue(const PullInWaiting& pull, const std::function<bool()>& stopped);
  std::uint64_t AppliedPushes() const PACELINE_REQUIRES(state_) {
    return progress_.pushes() - waiting_pushes_;
  }

  ServerValuesOptions ValuesOptions() const;
  // Takes the newest snapshot that is whole; returns the segment of the log that comes behind it.
  // Those that are not go to `damaged`, with why.
  using Damaged = std::vector<std::pair<std::uint64_t, Status>>;
  Result<std::uint64_t> LoadNewestSnapshot(Damaged& damaged) PACELINE_REQUIRES(writer_);
  Status SetAside(const Damaged& damaged);
  Status RemoveOldSnapshots();
  void Adopt(ServerState state) PACELINE_REQUIRES(writer_);
  // Returns the record's number; 0 without a log.
  Result<std::uint64_t> Log(ChangeType type, std::span<const std::byte> payload,
                            const std::shared_ptr<const void>& owner = nullptr)
      PACELINE_REQUIRES(writer_);
  std::uint64_t LastRecord() const PACELINE_REQUIRES(writer_) {
    return log_ == nullptr ? 0 : log_->last_record();
  }
  Status AwaitDurable(std::uint64_t record);
  Status Replay(ChangeType type, std::span<const std::byte> payload) PACELINE_REQUIRES(writer_);
  Status ReplayJob(std::span<const std::byte> payload) PACELINE_REQUIRES(writer_);
  Status ReplayInitialise(std::span<const std::byte> payload) PACELINE_REQUIRES(writer_);
  Status ReplayPush(std::span<const std::byte> payload) PACELINE_REQUIRES(writer_);
  // What a snapshot has.
  struct Frozen {
    ServerValues* values = nullptr;
    std::vector<std::unique_ptr<FrozenRows>> tables;
    std::vector<std::uint64_t> evicted;  // by table
    DenseCopy dense;
    bool initialised = false;
    Progress progress{0};
    SyncRounds rounds;
    std::uint64_t segment = 0;  // the log from here on is behind it
  };
  Result<Frozen> Freeze() PACELINE_REQUIRES(writer_);
  Status WriteFrozen(const Frozen& frozen);

  const ServerCoreOptions options_;
  ServerRecovery recovery_;
  std::unique_ptr<ChangeLog> log_;  // from Recover() on; null without a folder
  std::atomic<std::uint64_t> log_bytes_{0};
  std::atomic<std::uint64_t> snapshots_{0};
  std::atomic<bool> snapshot_asked_{false};

  MessagePool pool_;

  Mutex snapshotting_;
  Mutex writer_;
  SyncRounds rounds_ PACELINE_GUARDED_BY(writer_);

  mutable Mutex state_;
  std::condition_variable_any changed_;
  std::unique_ptr<ServerValues> values_ PACELINE_GUARDED_BY(state_);  // stays once it is there
  bool initialised_ PACELINE_GUARDED_BY(state_) = false;
  bool interrupted_ PACELINE_GUARDED_BY(state_) = false;
  Status failure_ PACELINE_GUARDED_BY(state_);  // a change was applied by half
  Progress progress_ PACELINE_GUARDED_BY(state_){0};
  std::uint64_t waiting_pushes_ PACELINE_GUARDED_BY(state_) = 0;
  std::uint64_t waiting_bytes_ PACELINE_GUARDED_BY(state_) = 0;
  std::uint64_t duplicates_ PACELINE_GUARDED_BY(state_) = 0;
  StalenessHistogram staleness_ PACELINE_GUARDED_BY(state_);
  std::vector<PullInWaiting*> pulls_ PACELINE_GUARDED_BY(state_);  // that were prepared
};

}  // namespace paceline::ps

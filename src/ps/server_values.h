#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ps/change_recorder.h"
#include "ps/dense_store.h"
#include "ps/helper.h"
#include "ps/job_spec.h"
#include "ps/sought_rows.h"
#include "ps/store.h"
#include "ps/sync_rounds.h"
#include "ps/table.h"

namespace paceline::ps {

struct ServerValuesOptions {
  std::uint32_t index = 0;
  std::uint32_t servers = 1;
  std::string table_store = "memory";  // or rocksdb
  std::string folder;                  // rocksdb: scratch goes below; exists
  std::size_t hot_bytes = std::size_t{256} << 20;
};

// A pull that is answered later.
struct PreparedPull {
  std::vector<SoughtRows> sought;  // where its rows are, by RowsWanted
  bool has_rows = false;           // as they are to be answered
};

// A pull that waits for a push, whose rows whoever applies that push hands over.
struct WaitingPull {
  const PullRequest* request = nullptr;
  PreparedPull* prepared = nullptr;
};

// The tables and dense floats of a job that one server keeps. Thread-safe, but one push at a time
// is applied. Does not know ledgers, logs and rounds.
class ServerValues {
 public:
  // `spec` is one that CheckJobSpec() likes.
  static Result<std::unique_ptr<ServerValues>> Open(const JobSpec& spec,
                                                    const ServerValuesOptions& options);

  const JobSpec& spec() const { return spec_; }
  const ServerValuesOptions& options() const { return options_; }
  DenseStore& dense() { return dense_; }
  const DenseStore& dense() const { return dense_; }
  Table& table(std::size_t number) { return *tables_[number]; }

  // kProtocol for what does not fit the job or this server; kInvalidArgument for a number that is
  // not finite: one would spread over all trainers.
  // `dense_is_finite`: somebody has looked already.
  Status Check(const Push& push, bool dense_is_finite = false) const;

  // A push of one trainer. After an error a part is applied. Rows age by rounds, which never go
  // back. Fills the rows that `pulls`, which were prepared, wait for; of pulls and pushes for which
  // FillsPulls() is true.
  Status Apply(std::uint64_t round, const Push& push, std::span<const WaitingPull> pulls = {});
  // The same of a round, when the job's trainers are applied together. One of several servers
  // remembers what it changes: a trainer that dies between its pushes to two of them has to repeat
  // that round with what it had then, although one has all pushes and is further.
  Status ApplyRound(std::uint64_t round, const PushSum& sum,
                    std::span<const WaitingPull> pulls = {});
  // Whether what rows are after this push is known before its round has ended.
  bool FillsPulls(const Push& push) const;

  // For a pull that is answered later: looks for its rows and brings them into the caches.
  Result<PreparedPull> Prepare(const PullRequest& request);
  // Fills what `request` asks for and does not wait. `prepared`: by Prepare(), or nothing. Dense
  // floats come last; `copied`, if there is one, is told how many are there.
  Status Pull(const PullRequest& request, PreparedPull prepared = {},
              const std::function<void(std::size_t)>& copied = nullptr);

  // Whether a pull of dense floats is remembered, for delays to be compensated.
  bool KeepsPulled(const PullRequest& request) const;

  // Puts what was there before ApplyRound() of `round` into an answer of Pull(). False: nobody
  // knows any more.
  bool RestoreBefore(std::uint64_t round, const PullRequest& request) const;

  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table, std::uint64_t call);

  // Rows that were evicted so far, by table.
  std::vector<std::uint64_t> Evicted() const;
  // That were, before a snapshot was made.
  void AddEvicted(std::size_t table, std::uint64_t rows);

  std::vector<TableStatus> TableStatuses() const;
  std::size_t TableBytes() const;

 private:
  ServerValues(const JobSpec& spec, const ServerValuesOptions& options);

  Status CheckTable(std::uint32_t table) const;
  Status CheckIds(std::uint32_t table, std::span<const std::int64_t> ids) const;
  Status CheckPart(const TablePart& part) const;
  std::string NameOf(std::uint32_t table) const;
  // Before and after what `round` pushes. Each row that goes is shown to `removed`.
  using Removed = std::function<void(std::size_t table, const TableRow& row)>;
  void SetTicks(std::uint64_t round);
  Status Evict(std::uint64_t round, const Removed& removed);

  // By RowsWanted; whether ids come twice is not looked at.
  Result<std::vector<SoughtRows>> Seek(const PullRequest& request) const;
  Status PullRows(const PullRequest& request, std::span<SoughtRows> sought);

  const JobSpec spec_;
  const ServerValuesOptions options_;
  std::vector<std::unique_ptr<Table>> tables_;
  DenseStore dense_;
  ChangeRecorder changes_;
  RecentlySought sought_;
  std::optional<std::uint64_t> evicted_round_;  // the last that Evict() was called with
  mutable Mutex evicted_mutex_;
  std::vector<std::uint64_t> evicted_ PACELINE_GUARDED_BY(evicted_mutex_);  // by table

  struct OldRows {
    std::vector<std::int64_t> ids;  // looked up only if a trainer repeats the round
    std::vector<float> values;

    void Clear();
    void Add(std::int64_t id, std::span<const float> row);
  };
  struct OldValues {
    std::uint64_t round = 0;
    std::vector<OldRows> tables;
    std::vector<float> dense;
  };
  std::optional<OldValues> OldValuesOf(std::uint64_t round, const PushSum& sum);
  // What a push does to the rows of one table.
  struct RowChange {
    const TablePart& part;
    StripeGroups groups;
    float learning_rate = 0;
    std::span<float> before = {};  // gets what they were; empty: nobody wants to know
  };
  // What the rows were goes to `old`, if there is one.
  std::vector<RowChange> GroupRows(const Push& push, OldValues* old);
  Status ChangeRows(std::span<RowChange> changes, std::span<const WaitingPull> pulls,
                    std::size_t number);
  Status ApplyGradients(const Push& push, OldValues* old, std::span<const WaitingPull> pulls,
                        const std::function<void()>& dense);
  Status AddDeltas(const Push& push);
  mutable Mutex before_mutex_;
  std::optional<OldValues> before_ PACELINE_GUARDED_BY(before_mutex_);
  Helper helper_;  // of whoever applies a push
};

}  // namespace paceline::ps

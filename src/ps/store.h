#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "ps/dense_order.h"
#include "ps/push_message.h"
#include "ps/table.h"

namespace paceline::ps {

// Why somebody pulls.
enum class Touch {
  kTrain,  // to compute what will be pushed
  kPeek,   // for evaluation
};

// Rows of one table that somebody wants.
struct RowsWanted {
  std::uint32_t table = 0;
  std::span<const std::int64_t> ids;  // each once
  std::span<float> out;               // ids.size() * dim
};

struct PullRequest {
  std::uint64_t trainer = 0;  // who asks
  // Waits until every trainer's batches below this are applied. 0: does not wait.
  std::uint64_t min_version = 0;
  // Waits until so many batches of lease `trainer` are applied: its own pushes travel another way
  // than its pulls, and nothing else bounds how far they lag behind. 0: does not wait.
  std::uint64_t own_batches = 0;
  Touch touch = Touch::kTrain;
  std::vector<RowsWanted> rows;
  std::span<float> dense;  // the whole dense buffer of the store, or nothing
  // How a server lays `dense` out; whoever asks a Store gets it as it is.
  DenseOrder order = DenseOrder::kFromFirst;
};

// Gets floats of the dense buffer, which begin at that place.
using TakeDense = std::function<void(std::uint64_t begin, std::span<const float> floats)>;

struct PullAnswer {
  std::uint64_t version = 0;          // batches that every trainer has applied
  std::vector<std::uint64_t> pushes;  // by server: applied so far, to be returned with Push()
};

// Rows that changed since the same trainer asked before, whoever changed them (geo).
struct ChangedRows {
  bool restarted = false;  // what changed is not known, and no rows are here: see PullChanged()
  std::vector<std::int64_t> ids;
  std::vector<float> values;  // ids.size() * dim
};

// A push whose dense floats are handed over while those that follow are still computed. Of one
// thread. Destroyed before Finish(): nothing was pushed.
class OpenPush {
 public:
  virtual ~OpenPush() = default;
  // The next floats of the dense buffer, from its beginning on.
  virtual void Append(std::span<const float> floats) = 0;
  // After the last one.
  virtual Status Finish() = 0;
};

// The parameters of a job, wherever they live. Thread-safe: pulls and pushes may overlap; pushes of
// one lease come from one thread.
class Store {
 public:
  virtual ~Store() = default;

  // The first values of the dense buffer, unless it has values already: whoever comes first
  // decides.
  virtual Status Initialise(std::span<const float> dense) = 0;

  // Batches of this lease that are applied everywhere: where its holder may begin.
  virtual Result<std::uint64_t> NextBatch(std::uint64_t lease) = 0;

  // Tells of a pull that comes once this trainer has pushed, so that servers look for its rows
  // meanwhile. It is answered as without: not before what it waits for has happened. A hint: the
  // caller keeps the request's memory as it is until its next call, but may pull something else.
  virtual Status Announce(const PullRequest& request);
  virtual Result<PullAnswer> Pull(const PullRequest& request) = 0;

  // The same, but the dense floats are handed over as they arrive, each once and those at the end
  // of the buffer first, by any thread and by several at the same time. `request.dense`, memory for
  // all of them, may be used for that; there are no rows. Here it is a Pull() at its end.
  virtual Result<PullAnswer> PullArriving(const PullRequest& request, const TakeDense& take);

  // Takes a push and returns when there is room for the next. `push.dense` is the whole dense
  // buffer or empty; `push.version` is ignored in favour of `pulled`, PullAnswer::pushes of the
  // pull that it was computed with (empty: not known). The push's arrays are free after the call.
  virtual Status Push(const ps::Push& push, std::span<const std::uint64_t> pulled) = 0;
  // The same with the whole dense buffer, which is given to the result instead of `push.dense`.
  // Other pushes may wait until that is finished or gone. Here it is a Push() at its end.
  virtual Result<std::unique_ptr<OpenPush>> Open(const ps::Push& push,
                                                 std::span<const std::uint64_t> pulled);
  // Every server makes a snapshot when it has the next push, beside whatever else it does. Nothing
  // here: a store in this process is saved by whoever owns it.
  virtual void SaveWithNextPush() {}
  // Returns when everything pushed before is applied and as durable as was asked for.
  virtual Status Flush() = 0;
  // Batches of this lease that are applied and durable everywhere, as far as is known without
  // asking: of the lease that was pushed last, else 0.
  virtual std::uint64_t Acknowledged(std::uint64_t lease) = 0;

  // Geo: the rows of `table` that changed since this trainer's call before. The trainer counts its
  // calls: 0, 1, 2 ... A server that does not expect this one (the first, one whose answer was
  // lost, one to a server that came back) begins to record only now: `restarted`, and whoever holds
  // rows has to pull them all.
  virtual Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table,
                                          std::uint64_t call) = 0;
};

}  // namespace paceline::ps

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "algo/batch_plan.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "data/batch.h"

namespace paceline::data {

struct LoaderOptions {
  Step first_step;
  ShardId first_shard;
  ShardId end_shard;  // this worker owns [first_shard, end_shard); may be empty
  int threads = 1;
  int depth = 2;  // steps in memory, the one being used included
  // Only a part: so many batches of the first step are left out, and at most so many delivered.
  std::uint64_t skip = 0;
  std::uint64_t most = ~std::uint64_t{0};
};

// Prepares batches ahead of training: one for each owned shard of each step, in order of (step,
// shard), the same bytes for every number of threads and every depth. Memory is a fixed pool of
// depth x owned shards buffers.
// One consumer thread calls Next; own threads fill. Borrows the source, which must outlive it.
// The destructor stops and joins at once, whatever the state. Does not know who owns other shards.
class BatchLoader {
 public:
  static Result<std::unique_ptr<BatchLoader>> Create(const BatchSource& source,
                                                     const algo::BatchPlan& plan,
                                                     const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch, lent until the next call; nullptr after the last step of the plan. A failure to
  // read comes in place of its batch and stays. kAborted when stopped; the same batch can then
  // still be asked for again.
  Result<const Batch*> Next(std::stop_token stop) PACELINE_EXCLUDES(mu_);

 private:
  BatchLoader(const BatchSource& source, const algo::BatchPlan& plan, const LoaderOptions& options,
              std::size_t buffers);
  Status Start();
  void Produce(const std::stop_token& stop) PACELINE_EXCLUDES(mu_);
  bool Claim(const std::stop_token& stop, std::uint64_t& sequence) PACELINE_EXCLUDES(mu_);
  void Publish(std::uint64_t sequence, const Status& status) PACELINE_EXCLUDES(mu_);
  Status Fill(const std::stop_token& stop, std::uint64_t sequence, BatchBuffer& buffer) const;
  std::size_t Slot(std::uint64_t sequence) const { return sequence % buffers_.size(); }

  const BatchSource& source_;
  const algo::BatchPlan plan_;
  const LoaderOptions options_;
  std::uint64_t owned_shards_;
  std::uint64_t end_;  // batches in all; they are numbered 0 .. end_ - 1

  // Batch number q lives in buffer q % size. It belongs to the thread that claimed q until q is
  // published, then to the consumer until q is released; the counters below hand it over.
  std::vector<BatchBuffer> buffers_;

  Mutex mu_;
  std::condition_variable_any ready_;                    // a batch was published
  std::condition_variable_any space_;                    // a buffer was released, or work ended
  std::uint64_t claimed_ PACELINE_GUARDED_BY(mu_) = 0;   // batches that some thread took on
  std::uint64_t released_ PACELINE_GUARDED_BY(mu_) = 0;  // batches the consumer is done with
  bool lent_ PACELINE_GUARDED_BY(mu_) = false;           // the consumer holds batch `released_`
  bool failed_ PACELINE_GUARDED_BY(mu_) = false;         // claim nothing more
  struct SlotState {
    bool ready = false;
    Status status;
  };
  std::vector<SlotState> states_ PACELINE_GUARDED_BY(mu_);

  std::vector<std::jthread> threads_;
};

// Which batches of a data set one of several workers takes: every `stride`-th from `first` on.
struct EvalShare {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
};

// Goes through a held-out source once, in order of index and with nothing random. Batches hold
// `batch` samples, the last one the rest; `step` numbers them. With `ahead`, so many further ones
// are prepared meanwhile, each by a thread of its own: the same bytes.
// Thread-compatible; borrows the source.
class EvalBatches {
 public:
  static Result<EvalBatches> Create(const BatchSource& source, std::size_t batch,
                                    const EvalShare& share = {}, std::size_t ahead = 0);

  // Lent until the next call; nullptr after the last.
  Result<const Batch*> Next();

 private:
  struct Prepared {
    BatchBuffer buffer;
    std::vector<SampleRef> samples;
    Status status;
    std::jthread thread;  // writes the others; joined before they are read
  };

  EvalBatches(const BatchSource& source, std::size_t batch, const EvalShare& share,
              std::size_t ahead)
      : source_(&source),
        capacity_(batch),
        stride_(share.stride),
        next_(share.first * batch),
        ahead_(ahead) {}
  void Begin(Prepared& place);

  const BatchSource* source_;
  std::size_t capacity_;
  std::uint64_t stride_;
  std::uint64_t next_;  // sample that the next batch to be begun starts with
  std::size_t ahead_;
  std::deque<std::unique_ptr<Prepared>> begun_;  // in order
  std::unique_ptr<Prepared> lent_;
};

}  // namespace paceline::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace paceline::data {

enum class ElementType { kFloat, kInt64 };

// One array of a batch: row-major, 64-byte aligned, lent.
struct BatchTensor {
  ElementType type = ElementType::kFloat;
  std::vector<std::int64_t> shape;
  void* values = nullptr;

  std::size_t Elements() const;
  std::span<float> Floats() const;           // of kFloat only
  std::span<std::int64_t> Integers() const;  // of kInt64 only
};

// The samples of one shard of one step, ready for the model, which may overwrite them. What each
// array holds is agreed between a source and the models that take it: images and labels, say.
struct Batch {
  Step step;
  ShardId shard;
  std::uint64_t first_position = 0;  // in the run, see algo::BatchPlan
  std::uint64_t epoch = 0;           // of the first position; a batch may cross into the next
  std::size_t count = 0;             // samples; 0 for the empty shards of the last step
  std::vector<BatchTensor> tensors;
};

// Memory of one batch, filled many times. It only grows, so batches of one size allocate once.
// Thread-compatible.
class BatchBuffer {
 public:
  Batch batch;

  // Makes array `place` of the batch one of this shape; its values are undefined. kUnavailable when
  // there is not enough memory.
  Result<std::span<float>> Floats(std::size_t place, std::vector<std::int64_t> shape);
  Result<std::span<std::int64_t>> Integers(std::size_t place, std::vector<std::int64_t> shape);

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> memory;
    std::size_t bytes = 0;
  };
  Result<BatchTensor*> Place(std::size_t place, ElementType type, std::vector<std::int64_t> shape);

  std::vector<Block> blocks_;
};

// A sample, and its place in the global batch of its step. What is random about it is a pure
// function of (seed, step, place), so that it depends neither on shards nor on workers.
struct SampleRef {
  std::uint64_t index = 0;
  std::uint64_t place = 0;
};

struct FillRequest {
  std::span<const SampleRef> samples;
  bool training = false;  // false: held out, nothing is random
  std::uint64_t seed = 0;
  Step step;
  std::stop_token stop;  // sources that take long look at it between samples
};

// Samples of any kind, addressed by index, made into batches. Immutable after opening and
// thread-safe: any thread may fill. Does not shuffle or choose samples; see algo/batch_plan.h.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual std::uint64_t size() const = 0;  // usable samples

  // Fills the arrays of `buffer.batch`; every index is below size(). No samples: arrays of no
  // rows, or none at all. kBadData names file, record and offset; kAborted once `stop` says so.
  virtual Status Fill(const FillRequest& request, BatchBuffer& buffer) const = 0;

  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;

  // Records left out because they are corrupt.
  virtual std::uint64_t BadRecords() const { return 0; }
};

}  // namespace paceline::data

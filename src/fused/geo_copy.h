#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "ps/job_spec.h"
#include "ps/store.h"
#include "sparse/fused_model.h"

namespace paceline::fused {

// One trainer's copy of the parameters that it has touched, for geo-SGD (Paddle's
// GeoSgdCommunicator): x is trained here, y is what the servers had when they were asked last.
//
//   every so many batches:  push x - y (the servers add it divided by the number N of trainers)
//                           y += (x - y) / N, which is what the servers now have of us
//                           pull z;  x += z - y, which is what the others did;  y = z
//
// The optimiser's state stays here: servers only add. Rows come on first touch and stay.
// Thread-compatible; borrows store and specification.
class GeoCopy {
 public:
  struct Options {
    std::uint64_t trainer = 0;   // to whom changed rows are told
    std::uint64_t trainers = 1;  // who share the samples now
    std::uint64_t lease = 0;     // names the pushes
  };
  // Takes the dense parameters and begins to be told about changed rows.
  static Result<GeoCopy> Begin(ps::Store& store, const ps::JobSpec& spec, const Options& options);

  std::span<const float> dense() const { return dense_.x; }

  // Pulls the rows of the batch that are not here yet.
  Status Fetch(const sparse::SparseBatch& batch);
  // The batch's rows; gradients are to be written to where these say. Until the next call.
  std::span<const sparse::TableRows> RowsOf(const sparse::SparseBatch& batch);
  // Applies those gradients, and the dense ones.
  void Apply(const sparse::SparseBatch& batch, std::span<const float> dense_gradient,
             float learning_rate);

  // Gives the servers what was learned since the last time, as push `number`, and takes what others
  // did. `last`: no further push of this lease.
  Status Exchange(std::uint64_t number, bool last = false);
  // Of all trainers, applied when the servers were asked last.
  std::uint64_t pushes() const { return pushes_; }

 private:
  struct Copies {
    std::vector<float> x, y, state;
  };
  struct Table : Copies {
    std::size_t dim = 0;
    std::size_t state_floats = 0;  // of a row
    std::uint64_t calls = 0;       // of PullChanged
    std::unordered_map<std::int64_t, std::size_t> slots;
    std::vector<std::int64_t> touched;     // since the last exchange
    std::vector<std::uint8_t> is_touched;  // by slot
    std::vector<std::size_t> batch_slots;  // of the batch's ids
    std::vector<const float*> pointers;
    std::vector<float> gradient;
  };

  GeoCopy(ps::Store& store, const ps::JobSpec& spec, const Options& options);
  void Locate(const sparse::SparseBatch& batch, std::size_t table);
  Status Push(std::uint64_t number, bool last);
  Status Pull(const ps::PullRequest& request);
  Status PullRows(std::uint32_t table);
  Status PullAllRows(std::uint32_t table);
  Status PullDense();

  ps::Store* store_;
  const ps::JobSpec* spec_;
  Options options_;
  std::uint64_t pushes_ = 0;
  Copies dense_;
  std::vector<Table> tables_;
  std::vector<sparse::TableRows> rows_;
};

}  // namespace paceline::fused

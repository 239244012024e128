#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algo/dense_placement.h"
#include "base/status.h"
#include "ps/table.h"

namespace paceline::ps {

// When a push takes effect.
enum class Apply {
  kTogether,  // when all trainers have pushed this batch: summed in the order of trainers (sync)
  kAtOnce,    // as it comes (async, half-async, geo, bounded staleness)
};

enum class DenseKind {
  kParameter,     // pushed gradients go through the optimiser
  kStatistic,     // pushed values, weighted by samples, replace what is there (batch norm)
  kWithoutDecay,  // a parameter that weight decay leaves alone
};
inline bool IsParameter(DenseKind kind) { return kind != DenseKind::kStatistic; }

// A tensor that every step uses as a whole.
struct DenseTensor {
  std::string name;  // with a dot first: of trainers among themselves, not of the model
  algo::TensorRows rows;
  DenseKind kind = DenseKind::kParameter;
  float learning_rate_scale = 1;
  std::vector<std::int64_t> shape = {};  // as the model has it, for exports; empty: of the rows

  bool IsInternal() const { return name.starts_with('.'); }
  friend bool operator==(const DenseTensor&, const DenseTensor&);
};

struct JobTable {
  TableOptions options;
  float learning_rate_scale = 1;

  friend bool operator==(const JobTable&, const JobTable&) = default;
};

// What the trainers of a job agree on. The first trainer that reaches a server decides; every other
// must say the same.
struct JobSpec {
  std::string fingerprint;  // anything else that must be equal
  Apply apply = Apply::kAtOnce;
  std::uint64_t trainers = 1;  // push as leases 0 .. trainers-1; 0: leases are given out (elastic)
  std::vector<JobTable> tables;
  std::vector<DenseTensor> dense;  // one after the other in one buffer
  RowOptimizerOptions dense_optimizer;
  float delay_compensation = 0;  // lambda of DC-ASGD, for dense parameters; 0: off

  // Whether a push is not applied before others have come.
  bool WaitsForOthers() const { return apply == Apply::kTogether && trainers != 1; }
  std::uint64_t DenseFloats() const;
  RowOptimizerOptions OptimizerOf(DenseKind kind) const;
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// Says in which way two jobs differ; empty when they are equal.
std::string JobDifference(const JobSpec& a, const JobSpec& b);

// kInvalidArgument names what makes no sense.
Status CheckJobSpec(const JobSpec& spec);

std::vector<std::byte> EncodeJobSpec(const JobSpec& spec);
// kProtocol for what EncodeJobSpec cannot have written.
Result<JobSpec> DecodeJobSpec(std::span<const std::byte> bytes);

// Of one job.
inline constexpr std::uint32_t kMaxServers = 1024;

// A part of the job's dense buffer that one server keeps.
struct DensePiece {
  std::size_t tensor = 0;
  std::uint64_t begin = 0;  // floats, in the job's buffer
  std::uint64_t count = 0;

  friend bool operator==(const DensePiece&, const DensePiece&) = default;
};

// What server `index` of `servers` keeps, in the order in which it keeps and sends it.
std::vector<DensePiece> DensePiecesOf(const JobSpec& spec, std::size_t servers, std::size_t index);

}  // namespace paceline::ps

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "algo/best_so_far.h"
#include "base/ids.h"
#include "base/status.h"
#include "disk/checkpoint.h"
#include "train/trainer.h"

namespace paceline::train {

// Where a run stands besides its tensors.
struct RunPosition {
  Step next_step;             // the first step that is not done yet
  std::uint64_t samples = 0;  // consumed since the start, over all epochs
  std::uint64_t epoch = 0;    // of the next sample
  std::uint64_t skipped = 0;  // steps with NaN or Inf
  std::uint64_t skipped_in_row = 0;
  algo::BestSoFar best;  // of the evaluations
};

// What must agree between a checkpoint and the run that loads it.
struct RunIdentity {
  std::map<std::string, std::string> config;  // job::TrainConfig::Identity() and the data
  std::string model;
  std::string optimizer;
  std::uint64_t seed = 0;
  std::uint64_t workers = 1;
};

// model.safetensors: parameters and running statistics under their PyTorch names.
// optimizer.safetensors: "<parameter>.<state>" for each state of the optimiser.
// ema.safetensors: with an average, the same tensors as model.safetensors.
Result<Generation> SaveCheckpoint(disk::CheckpointStore& store, Trainer& trainer,
                                  const RunPosition& position, const RunIdentity& identity);

struct Restored {
  RunPosition position;
  Generation generation;
  std::vector<std::string> warnings;  // generations that were passed over, and why
};

// Loads the newest usable generation into the trainer. kNotFound: there is none; kBadCheckpoint:
// all are unusable; kMismatch: it belongs to a different configuration (each difference on a line).
Result<Restored> RestoreCheckpoint(disk::CheckpointStore& store, Trainer& trainer,
                                   const RunIdentity& identity);

}  // namespace paceline::train

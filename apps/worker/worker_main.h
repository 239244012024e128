#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "job/train_config.h"
#include "model/catalog.h"
#include "train/data_source.h"
#include "train/zoo.h"

namespace paceline {

// A model that is not in the catalogue.
struct OwnModel {
  model::ModelCard card;  // a name, and what a run starts with unless told otherwise
  // A pure function of the seed, so that every worker builds the same. How labels are smoothed is
  // up to the card and to --label-smoothing, not to the objective that it makes.
  std::function<train::BuiltModel(std::uint64_t seed)> build;
  // Training and held-out samples; empty: what `--data` names, for the card's family.
  std::function<Result<train::DataSource>(const job::TrainConfig& config)> open_data;
};

// The whole of a worker program: parses the arguments, trains, prints the summary, returns the exit
// code. A program with models of its own calls it from main and is started by itself (one worker)
// or by `paceline train NAME --worker-program PROGRAM`, with every strategy.
int WorkerMain(int argc, char** argv, const std::vector<OwnModel>& own = {});

}  // namespace paceline

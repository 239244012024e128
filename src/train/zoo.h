#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "job/train_config.h"
#include "train/network.h"
#include "train/objective.h"

namespace paceline::train {

// A network and what is wanted of it.
struct BuiltModel {
  std::shared_ptr<Network> network;
  std::shared_ptr<const Objective> objective;
};

// What a run trains: a model of the catalogue, or a TorchScript file.
Result<BuiltModel> BuildModel(const job::TrainConfig& config);

// The model of the catalogue with that name, with its initial parameters: a pure function of the
// seed. Without a label smoothing, the card's; objectives without labels have no use for one.
Result<BuiltModel> BuildModel(const std::string& name, std::uint64_t seed,
                              std::optional<double> label_smoothing = std::nullopt);

// Somebody's own model with the label smoothing of the run, whatever it was built with. Only
// Classification has labels of its own: with another objective anything but 0 is kInvalidArgument.
Result<BuiltModel> WithLabelSmoothing(BuiltModel model, double label_smoothing);

}  // namespace paceline::train

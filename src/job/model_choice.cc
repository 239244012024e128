#include "job/model_choice.h"

#include <filesystem>

#include <fmt/format.h>

namespace paceline::job {

namespace {

// What somebody's own model starts with unless told otherwise.
model::ModelCard PlainCard(const TrainConfig& config) {
  return {.name = config.model,
          .family = model::Family::kImage,
          .description = "a model of your own",
          .input_shape = {3, 32, 32},
          .classes = 10,
          .batch = 32,
          .optimizer = "sgd",
          .learning_rate = 0.01};
}

Result<model::ModelCard> ScriptCard(const TrainConfig& config) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config.model, ignored)) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("there is no model file {}", config.model));
  }
  if (!config.trust_model_files) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} is a TorchScript file, and such a file is a program; if "
                                     "you trust whoever made it, say --trust-model-files",
                                     config.model));
  }
  model::ModelCard card = PlainCard(config);
  card.source = config.model;
  card.any_image_size = true;
  card.classes = config.classes;
  if (config.image_size > 0) card.input_shape = {3, config.image_size, config.image_size};
  if (config.loss == "mse") card.family = model::Family::kCompression;
  return card;
}

}  // namespace

bool IsScript(const std::string& model) { return model.ends_with(".pt"); }

Result<model::ModelCard> ChooseModel(const TrainConfig& config) {
  if (IsScript(config.model)) return ScriptCard(config);
  const auto found = model::FindModel(config.model);
  if (found.ok()) return **found;
  if (!config.worker_program.empty()) return PlainCard(config);
  return found.status();
}

}  // namespace paceline::job

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/check.h"
#include "base/json_writer.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "job/recipe.h"
#include "job/train_config.h"
#include "model/catalog.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

using model::ModelCard;

constexpr double kMebi = 1024.0 * 1024.0;

// What a card says beyond batch, optimiser and learning rate: ", momentum 0.9, warm-up 100 steps".
std::string RecipeText(const ModelCard& card) {
  std::string text;
  const auto add = [&](const char* name, double value) {
    if (value != 0) text += fmt::format(", {} {}", name, value);
  };
  add("momentum", card.momentum);
  add("beta1", card.beta1);
  add("beta2", card.beta2);
  add("epsilon", card.epsilon);
  add("weight decay", card.weight_decay);
  if (!card.lr_schedule.empty()) text += ", schedule " + card.lr_schedule;
  if (!card.lr_decay_at.empty()) text += fmt::format(" after epochs {}", card.lr_decay_at);
  if (card.warmup_steps != 0) text += fmt::format(", warm-up {} steps", card.warmup_steps);
  add("label smoothing", card.label_smoothing);
  return text;
}

JsonObject CardJson(const ModelCard& card) {
  job::TrainConfig recipe;  // of a run that says nothing
  PACELINE_CHECK(job::FillRecipe(recipe, card).ok(), "only flags can be wrong");
  return JsonObject()
      .Add("name", card.name)
      .Add("family", model::FamilyName(card.family))
      .Add("params", card.ParameterCount())
      .Add("tensors", card.TensorCount())
      .Add("bytes", card.ParameterBytes())
      .Add("forward_flops", card.forward_flops)
      .Add("batch", card.batch)
      .Add("optimizer", card.optimizer)
      .Add("lr", card.learning_rate)
      .Add("momentum", recipe.momentum)
      .Add("beta1", recipe.beta1)
      .Add("beta2", recipe.beta2)
      .Add("epsilon", recipe.epsilon)
      .Add("weight_decay", recipe.weight_decay)
      .Add("lr_schedule", recipe.lr_schedule)
      .Add("lr_decay_at", recipe.lr_decay_at)
      .Add("warmup_steps", recipe.warmup_steps)
      .Add("label_smoothing", recipe.label_smoothing)
      .Add("description", card.description)
      .Add("source", card.source);
}

// One digit after the point, and two that count where there would be only zeros.
std::string Short(double number) {
  return number < 1 ? fmt::format("{:.2g}", number) : fmt::format("{:.1f}", number);
}

std::string MebiOf(const ModelCard& card) {
  return Short(static_cast<double>(card.ParameterBytes()) / kMebi);
}

std::string MegaflopsOf(const ModelCard& card) {
  return Short(static_cast<double>(card.forward_flops) / 1e6);
}

void PrintList() {
  fmt::print("{:<24} {:<15} {:>12} {:>8} {:>9} {:>15}  {}\n", "NAME", "FAMILY", "PARAMETERS",
             "TENSORS", "MIB", "MFLOP/SAMPLE", "DESCRIPTION");
  for (const ModelCard& card : model::Catalog()) {
    fmt::print("{:<24} {:<15} {:>12} {:>8} {:>9} {:>15}  {}\n", card.name,
               model::FamilyName(card.family), card.ParameterCount(), card.TensorCount(),
               MebiOf(card), MegaflopsOf(card), card.description);
  }
}

void PrintCard(const ModelCard& card) {
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<12} {}\n", name, value);
  };
  line("name", card.name);
  line("family", model::FamilyName(card.family));
  line("description", card.description);
  line("source", card.source);
  line("parameters", fmt::format("{} in {} tensors, {} MiB", card.ParameterCount(),
                                 card.TensorCount(), MebiOf(card)));
  line("operations", fmt::format("{} MFLOP forward per sample", MegaflopsOf(card)));
  line("defaults", fmt::format("batch {}, optimizer {}, learning rate {}{}", card.batch,
                               card.optimizer, card.learning_rate, RecipeText(card)));
  line("train with", fmt::format("paceline train {}", card.name));
}

void PrintJson() {
  std::vector<JsonObject> cards;
  cards.reserve(model::Catalog().size());
  for (const ModelCard& card : model::Catalog()) cards.push_back(CardJson(card));
  fmt::print("{}\n", JsonObject().Add("models", cards).Text());
}

}  // namespace

int RunModels(const std::vector<std::string>& arguments) {
  CLI::App app("List the models, or show one.", "paceline models");
  std::string name;
  bool json = false;
  app.add_option("model", name, "Show this one")->option_text("MODEL");
  app.add_flag("--json", json, "Print one JSON object");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  if (name.empty()) {
    json ? PrintJson() : PrintList();
    return 0;
  }
  const auto card = model::FindModel(name);
  if (!card.ok()) return Fail("paceline models", card.status());
  if (json) {
    fmt::print("{}\n", CardJson(**card).Text());
  } else {
    PrintCard(**card);
  }
  return 0;
}

}  // namespace paceline::cli

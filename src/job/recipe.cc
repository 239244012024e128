#include "job/recipe.h"

#include <fmt/format.h>

#include "algo/decay_rule.h"
#include "algo/loss_scale.h"
#include "job/config_checks.h"
#include "job/model_choice.h"
#include "job/table_rules.h"

namespace paceline::job {

namespace {

constexpr double kUsualBeta1 = 0.9, kUsualBeta2 = 0.999;
constexpr double kJustBelowOne = 0.999'999'999;

Status WrongRecipe(std::string text) {
  return Status::Error(Code::kInvalidArgument, std::move(text));
}

bool UsesMomentum(const std::string& optimizer) {
  return optimizer == "sgd" || optimizer == "lars";
}

bool UsesBetas(const std::string& optimizer) {
  return optimizer == "adam" || optimizer == "adamw" || optimizer == "lamb";
}

bool UsesEpsilon(const std::string& optimizer) { return optimizer != "sgd" && optimizer != "ftrl"; }

// PyTorch's, and LAMB's of its paper. Tables have had another one for Adagrad from the beginning.
double UsualEpsilon(const std::string& optimizer, bool fused) {
  if (!UsesEpsilon(optimizer)) return 0;
  if (optimizer == "lamb") return 1e-6;
  return optimizer == "adagrad" && !fused ? 1e-10 : 1e-8;
}

// The user's, else the card's if it is for this optimiser, else the usual one.
void Fill(double& value, double of_card, double usual) {
  if (value < 0) value = of_card > 0 ? of_card : usual;
}

// Of the parameters, or only of rows of tables.
Status CheckFtrl(const TrainConfig& config) {
  PACELINE_ASSIGN(const bool of_rows, SomeTableLearnsBy(config, "ftrl"));
  if (config.ftrl_l1 != 0 && config.optimizer != "ftrl" && !of_rows) {
    return WrongRecipe("--ftrl-l1 goes with --optimizer or --table-optimizer ftrl");
  }
  return Within("--ftrl-l1", config.ftrl_l1, 0.0, 1e6);
}

Status CheckMomentum(const TrainConfig& config) {
  PACELINE_ASSIGN(const bool of_rows, SomeTableLearnsBy(config, "momentum"));
  if (config.momentum != 0 && !UsesMomentum(config.optimizer) && !of_rows) {
    return WrongRecipe(
        fmt::format("--momentum goes with --optimizer sgd and lars, not {}, and with "
                    "--table-optimizer momentum",
                    config.optimizer));
  }
  return Within("--momentum", config.momentum, 0.0, 1.0);
}

Status CheckOptimizer(const TrainConfig& config) {
  PACELINE_TRY(OneOf("--optimizer", config.optimizer,
                     {"sgd", "adam", "adamw", "adagrad", "ftrl", "lars", "lamb"}));
  PACELINE_TRY(CheckFtrl(config));
  PACELINE_TRY(CheckMomentum(config));
  if ((config.beta1 != 0 || config.beta2 != 0) && !UsesBetas(config.optimizer)) {
    return WrongRecipe(fmt::format(
        "--beta1 and --beta2 go with --optimizer adam, adamw and lamb, not {}", config.optimizer));
  }
  if (config.epsilon != 0 && !UsesEpsilon(config.optimizer)) {
    return WrongRecipe(fmt::format("--epsilon does not go with --optimizer {}", config.optimizer));
  }
  PACELINE_TRY(Within("--beta1", config.beta1, 0.0, kJustBelowOne));
  PACELINE_TRY(Within("--beta2", config.beta2, 0.0, kJustBelowOne));
  PACELINE_TRY(Within("--epsilon", config.epsilon, 0.0, 1.0));
  PACELINE_TRY(Within("--trust-coefficient", config.trust_coefficient, 0.0, 1e6));
  PACELINE_TRY(Within("--weight-decay", config.weight_decay, 0.0, 1e6));
  return algo::DecayRule::Parse(config.decay_exclude).status();
}

// Of --lr-schedule step.
Status CheckSteps(const TrainConfig& config) {
  const bool step = config.lr_schedule == "step", epochs = !config.lr_decay_at.empty();
  if (step && config.lr_decay_every == 0 && !epochs) {
    return WrongRecipe(
        "--lr-schedule step needs --lr-decay-at EPOCHS, as in 30,60,80, or --lr-decay-every STEPS");
  }
  if (!epochs) return {};
  if (!step) {
    return WrongRecipe(
        fmt::format("--lr-decay-at goes with --lr-schedule step, not {}", config.lr_schedule));
  }
  if (config.lr_decay_every != 0) {
    return WrongRecipe("give --lr-decay-at or --lr-decay-every, not both");
  }
  const auto parsed = algo::ParseEpochs(config.lr_decay_at);
  return parsed.ok() ? Status() : WrongRecipe("--lr-decay-at " + parsed.status().message());
}

Status CheckSchedule(const TrainConfig& config) {
  PACELINE_TRY(
      OneOf("--lr-schedule", config.lr_schedule,
            {"constant", "step", "cosine", "inverse-sqrt", "linear", "poly", "one-cycle"}));
  PACELINE_TRY(CheckSteps(config));
  PACELINE_TRY(Within<std::int64_t>("--warmup-steps", config.warmup_steps, 0, 1'000'000'000'000));
  PACELINE_TRY(Within("--lr-gamma", config.lr_gamma, 0.0, 1.0));
  PACELINE_TRY(Within("--lr-power", config.lr_power, 0.0, 100.0));
  return Within("--lr-floor", config.lr_floor, 0.0, 1e6);
}

// Servers keep parameters in parts and know nothing of losses and evaluations.
Status CheckWithServers(const TrainConfig& config) {
  if (!config.UsesServers()) return {};
  if (config.optimizer == "lars" || config.optimizer == "lamb") {
    return WrongRecipe(
        fmt::format("--optimizer {} needs the norm of whole tensors, of which a parameter server "
                    "may have a part: it goes with --strategy local and allreduce",
                    config.optimizer));
  }
  if (config.ema != 0) {
    return WrongRecipe(
        "--ema is part of the state that workers keep: it does not go with --strategy ps");
  }
  if (config.loss_scale == "dynamic") {
    return WrongRecipe(
        "--loss-scale dynamic is part of the state that workers keep; with --strategy ps it takes "
        "a number");
  }
  if (config.keep_best) {
    return WrongRecipe(
        "--keep-best marks checkpoints of workers; with --strategy ps servers keep theirs");
  }
  if (config.keep != TrainConfig{}.keep) {
    return WrongRecipe(
        "--keep counts checkpoints of workers; with --strategy ps each server keeps its two newest "
        "snapshots");
  }
  if (config.patience > 0 && config.mode != "sync") {
    return WrongRecipe(
        fmt::format("--patience ends a step that all trainers agree on; with --strategy ps it goes "
                    "with --mode sync, not {}",
                    config.mode));
  }
  return {};
}

void FillSchedule(TrainConfig& config, const model::ModelCard& card) {
  if (config.lr_schedule.empty() && (!config.lr_decay_at.empty() || config.lr_decay_every != 0)) {
    config.lr_schedule = "step";
  }
  if (config.lr_schedule.empty()) {
    config.lr_schedule = card.lr_schedule.empty() ? "constant" : card.lr_schedule;
  }
  const bool open = config.lr_decay_at.empty() && config.lr_decay_every == 0;
  if (config.lr_schedule == "step" && open) config.lr_decay_at = card.lr_decay_at;
}

}  // namespace

Status FillRecipe(TrainConfig& config, const model::ModelCard& card) {
  if (config.optimizer.empty()) config.optimizer = card.optimizer;
  const model::ModelCard none;
  const model::ModelCard& of_optimizer = config.optimizer == card.optimizer ? card : none;
  const bool betas = UsesBetas(config.optimizer);
  Fill(config.momentum, of_optimizer.momentum, 0);
  Fill(config.beta1, of_optimizer.beta1, betas ? kUsualBeta1 : 0);
  Fill(config.beta2, of_optimizer.beta2, betas ? kUsualBeta2 : 0);
  Fill(config.epsilon, of_optimizer.epsilon, UsualEpsilon(config.optimizer, card.Fused()));
  Fill(config.weight_decay, of_optimizer.weight_decay, 0);
  Fill(config.label_smoothing, card.label_smoothing, 0);
  FillSchedule(config, card);
  if (config.warmup_steps < 0) config.warmup_steps = static_cast<std::int64_t>(card.warmup_steps);
  if (config.accumulate == 0) return {};
  PACELINE_TRY(Within<std::int64_t>("--accumulate", config.accumulate, 1, 65'536));
  const std::int64_t shards = config.workers * config.accumulate;
  if (config.shards != 0 && config.shards != shards) {
    return WrongRecipe(
        fmt::format("--accumulate {} with {} worker(s) is --shards {}, not {}: give one",
                    config.accumulate, config.workers, shards, config.shards));
  }
  config.shards = shards;
  config.accumulate = 0;
  return {};
}

Status CheckRecipe(const TrainConfig& config, const model::ModelCard& card) {
  PACELINE_TRY(CheckOptimizer(config));
  PACELINE_TRY(CheckSchedule(config));
  PACELINE_TRY(Within("--label-smoothing", config.label_smoothing, 0.0, kJustBelowOne));
  PACELINE_TRY(Within("--mixup", config.mixup, 0.0, 1.0));
  PACELINE_TRY(Within("--ema", config.ema, 0.0, kJustBelowOne));
  PACELINE_TRY(algo::ParseLossScale(config.loss_scale).status());
  const bool classes =
      card.family == model::Family::kImage || card.family == model::Family::kTranslation;
  if (config.label_smoothing != 0 && !classes) {
    const char* loss = IsScript(config.model) ? " with --loss mse" : "";
    return WrongRecipe(
        fmt::format("--label-smoothing: {}{} has no labels to smooth", card.name, loss));
  }
  if (config.mixup != 0 && card.family != model::Family::kImage) {
    return WrongRecipe(
        fmt::format("--mixup mixes labelled images, which {} does not take", card.name));
  }
  return CheckWithServers(config);
}

Result<algo::LearningRateSchedule> ScheduleOf(const TrainConfig& config,
                                              const algo::BatchPlan& plan) {
  PACELINE_ASSIGN(const auto kind, algo::ParseLearningRateKind(config.lr_schedule));
  algo::LearningRateSchedule schedule{
      .kind = kind,
      .base = config.lr,
      .warmup_steps = static_cast<std::uint64_t>(config.warmup_steps),
      .decay_every = config.lr_decay_every,
      .gamma = config.lr_gamma,
      .total_steps = plan.Steps(),
      .floor = config.lr_floor,
      .power = config.lr_power};
  if (!config.lr_decay_at.empty()) {
    PACELINE_ASSIGN(const auto epochs, algo::ParseEpochs(config.lr_decay_at));
    schedule.decay_at = algo::StepsOfEpochs(epochs, plan.dataset_size, plan.GlobalBatch());
  }
  return schedule;
}

void AddRecipeIdentity(const TrainConfig& config, std::map<std::string, std::string>& identity) {
  const auto number = [&](const char* name, double value, double usual) {
    if (value != usual) identity[name] = fmt::format("{}", value);
  };
  const bool betas = UsesBetas(config.optimizer);
  number("beta1", config.beta1, betas ? kUsualBeta1 : 0);
  number("beta2", config.beta2, betas ? kUsualBeta2 : 0);
  number("epsilon", config.epsilon, UsualEpsilon(config.optimizer, config.Fused()));
  if (config.optimizer == "lars") number("trust-coefficient", config.trust_coefficient, 0);
  number("ftrl-l1", config.ftrl_l1, 0);
  number("label-smoothing", config.label_smoothing, 0);
  number("mixup", config.mixup, 0);
  number("ema", config.ema, 0);
  if (config.decay_exclude != "none") identity["decay-exclude"] = config.decay_exclude;
  if (config.loss_scale != "1") identity["loss-scale"] = config.loss_scale;
  if (!config.lr_decay_at.empty()) identity["lr-decay-at"] = config.lr_decay_at;
  if (config.lr_schedule == "poly") number("lr-power", config.lr_power, 0);
  const auto kind = algo::ParseLearningRateKind(config.lr_schedule);
  if (!kind.ok() || !algo::HasEnd(*kind)) return;
  identity["lr-floor"] = fmt::format("{}", config.lr_floor);
  identity["steps"] = std::to_string(config.steps);
  identity["epochs"] = std::to_string(config.epochs);
}

}  // namespace paceline::job

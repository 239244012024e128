#include "job/table_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "job/config_checks.h"

namespace paceline::job {

namespace {

constexpr std::uint32_t kMostTouches = 1'000'000, kMostRounds = 1'000'000'000;

Status WrongRule(std::string text) {
  return Status::Error(Code::kInvalidArgument, std::move(text));
}

struct Setting {
  const char* flag;
  const std::string& text;
};

struct Said {
  const char* flag;
  bool said;
};

// What would be ignored: it belongs to libtorch's trainer, to its data or to workers that reduce
// gradients.
std::vector<Said> WithoutUse(const TrainConfig& config, const model::ModelCard& card) {
  const TrainConfig usual;
  return {
      {"--optimizer lars and lamb", config.optimizer == "lars" || config.optimizer == "lamb"},
      {"--clip-norm", config.clip_norm != 0},
      {"--ema", config.ema != 0},
      {"--loss-scale", config.loss_scale != usual.loss_scale},
      {"--keep-best", config.keep_best},
      {"--patience", config.patience != 0},
      {"--init-from", !config.init_from.empty()},
      {"--trust-model-files", config.trust_model_files},
      {"--worker-program", !config.worker_program.empty()},
      {"--data-cache", !config.data_cache.empty()},
      {"--augment", config.augment != usual.augment},
      {"--data-threads", config.data_threads != usual.data_threads},
      {"--threads", config.threads_given && config.threads != 1},
      {"--engine", config.engine != usual.engine},
      {"--bucket-kb", config.bucket_kb != usual.bucket_kb},
      {"--verify-every", config.verify_every != usual.verify_every},
      {"--blame-every", config.blame_every != usual.blame_every},
      {"--collective-timeout", config.collective_timeout != usual.collective_timeout},
      {"--keep", config.keep != usual.keep},
      {"--trace", !config.trace.empty()},
      {"--bad-record",
       config.bad_record != usual.bad_record && card.family != model::Family::kClick},
      {"--eval-samples", config.eval_samples != 0 && card.family == model::Family::kWords},
  };
}

Status CheckUse(const TrainConfig& config, const model::ModelCard& card) {
  for (const Said& each : WithoutUse(config, card)) {
    if (!each.said) continue;
    return WrongRule(
        fmt::format("{}: {} has no use for it; docs/training.md says what models with tables take",
                    each.flag, card.name));
  }
  if (config.strategy != "allreduce") return {};
  const std::string flag =
      config.workers > 1 ? "--workers " + config.WorkersText() : "--strategy allreduce";
  return WrongRule(fmt::format("{}: {} has tables, which several workers train with --strategy ps",
                               flag, card.name));
}

std::array<Setting, 5> SettingsOf(const TrainConfig& config) {
  return {{{"--admit-count", config.admit_count},
           {"--admit-probability", config.admit_probability},
           {"--evict-after", config.evict_after},
           {"--table-optimizer", config.table_optimizer},
           {"--table-lr-scale", config.table_lr_scale}}};
}

template <typename T>
Status ReadNumber(const char* flag, const std::string& text, T& value) {
  if (text.empty()) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return WrongRule(fmt::format("{} is '{}'; it takes a number, or TABLE=NUMBER,...", flag, text));
}

// What one table, or with an empty name any other one, is told.
Result<TableRules> ReadRules(const TrainConfig& config, const std::string& table) {
  std::array<std::string, 5> said;
  const auto settings = SettingsOf(config);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    PACELINE_ASSIGN(const PerTable setting, ParsePerTable(settings[i].flag, settings[i].text));
    said[i] = setting.For(table);
  }
  TableRules rules;
  PACELINE_TRY(ReadNumber("--admit-count", said[0], rules.admit_count));
  PACELINE_TRY(ReadNumber("--admit-probability", said[1], rules.admit_probability));
  PACELINE_TRY(ReadNumber("--evict-after", said[2], rules.evict_after));
  rules.optimizer = said[3];
  PACELINE_TRY(ReadNumber("--table-lr-scale", said[4], rules.lr_scale));
  PACELINE_TRY(Within<std::uint32_t>("--admit-count", rules.admit_count, 1, kMostTouches));
  PACELINE_TRY(Within("--admit-probability", rules.admit_probability, 0.0, 1.0));
  PACELINE_TRY(Within<std::uint32_t>("--evict-after", rules.evict_after, 0, kMostRounds));
  PACELINE_TRY(Within("--table-lr-scale", rules.lr_scale, 0.0, 1e6));
  if (!rules.optimizer.empty()) {
    PACELINE_TRY(OneOf("--table-optimizer", rules.optimizer,
                       {"sgd", "momentum", "adam", "adamw", "adagrad", "ftrl"}));
  }
  if (rules.admit_count > 1 && rules.admit_probability < 1) {
    return WrongRule("--admit-count and --admit-probability: a table admits by one of them");
  }
  if (!rules.optimizer.empty() && rules.optimizer != "sgd" && config.mode == "geo") {
    return WrongRule(
        fmt::format("--table-optimizer {}: --mode geo adds differences of parameters; it goes with "
                    "sgd",
                    rules.optimizer));
  }
  return rules;
}

}  // namespace

const std::string& PerTable::For(const std::string& table) const {
  const auto found = named.find(table);
  return found == named.end() ? all : found->second;
}

Result<PerTable> ParsePerTable(const char* flag, const std::string& text) {
  PerTable setting;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    const bool names = equals != std::string::npos;
    const std::string value = names ? part.substr(equals + 1) : part;
    const bool fits = !value.empty() && equals != 0 && (names || setting.all.empty());
    const bool is_new = !names || setting.named.emplace(part.substr(0, equals), value).second;
    if (!fits || !is_new) {
      return WrongRule(
          fmt::format("{} is '{}'; it takes one value, or TABLE=VALUE,... with each table "
                      "once",
                      flag, text));
    }
    if (!names) setting.all = value;
    begin = end + 1;
  }
  return setting;
}

Result<bool> SomeTableLearnsBy(const TrainConfig& config, const std::string& optimizer) {
  PACELINE_ASSIGN(const PerTable said, ParsePerTable("--table-optimizer", config.table_optimizer));
  return said.all == optimizer ||
         std::ranges::any_of(said.named, [&](const auto& one) { return one.second == optimizer; });
}

Result<TableRules> RulesOfTable(const TrainConfig& config, const std::string& table) {
  return ReadRules(config, table);
}

Status CheckTableFlags(const TrainConfig& config, const model::ModelCard& card) {
  if (card.Fused()) PACELINE_TRY(CheckUse(config, card));
  for (const Setting& setting : SettingsOf(config)) {
    if (setting.text.empty()) continue;
    if (!card.Fused()) {
      return WrongRule(
          fmt::format("{} goes with models with tables, which {} is not", setting.flag, card.name));
    }
    PACELINE_ASSIGN(const PerTable parsed, ParsePerTable(setting.flag, setting.text));
    for (const auto& [table, value] : parsed.named) {
      PACELINE_TRY(ReadRules(config, table).status());
    }
  }
  return ReadRules(config, "").status();
}

Status CheckTableNames(const TrainConfig& config, std::span<const std::string> tables) {
  for (const Setting& setting : SettingsOf(config)) {
    PACELINE_ASSIGN(const PerTable parsed, ParsePerTable(setting.flag, setting.text));
    for (const auto& [table, value] : parsed.named) {
      if (std::ranges::find(tables, table) != tables.end()) continue;
      return WrongRule(fmt::format("{}: {} has no table '{}'; it has: {}", setting.flag,
                                   config.model, table, fmt::join(tables, ", ")));
    }
  }
  return {};
}

void AddTableIdentity(const TrainConfig& config, std::map<std::string, std::string>& identity) {
  for (const Setting& setting : SettingsOf(config)) {
    if (!setting.text.empty()) identity[setting.flag + 2] = setting.text;
  }
}

}  // namespace paceline::job

#include "job/train_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "job/config_checks.h"
#include "job/model_choice.h"
#include "job/recipe.h"
#include "job/table_rules.h"

namespace paceline::job {

namespace {

Status CheckChoices(const TrainConfig& config) {
  PACELINE_TRY(OneOf("--augment", config.augment, {"standard", "none"}));
  PACELINE_TRY(OneOf("--bad-record", config.bad_record, {"fail", "skip"}));
  PACELINE_TRY(OneOf("--strategy", config.strategy, {"local", "allreduce", "ps"}));
  PACELINE_TRY(OneOf("--engine", config.engine, {"native", "gloo", "mpi"}));
  PACELINE_TRY(OneOf("--placement", config.placement, {"auto", "none"}));
  PACELINE_TRY(OneOf("--shared-memory", config.shared_memory, {"auto", "off"}));
  return OneOf("--nan-policy", config.nan_policy, {"skip", "stop"});
}

Status CheckText(const TrainConfig& config, const model::ModelCard& card) {
  const bool translation = card.family == model::Family::kTranslation;
  const bool masked = card.family == model::Family::kMaskedLanguage;
  if (translation && config.Synthetic()) {
    PACELINE_TRY(
        OneOf("--data", config.data, {"synthetic", "synthetic:copy", "synthetic:reverse"}));
  }
  PACELINE_TRY(Within<std::int64_t>("--batch-tokens", config.batch_tokens, 0, 1'000'000));
  const auto wrong = [&](const char* flag, const char* what) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} goes with {}, not with {}", flag, what, card.name));
  };
  const bool variant = config.Synthetic() && config.data != "synthetic";
  if (variant && !translation) return wrong(("--data " + config.data).c_str(), "translation");
  if (config.batch_tokens > 0 && !translation) return wrong("--batch-tokens", "translation");
  if (!config.languages.empty() && !translation) return wrong("--languages", "translation");
  if (config.lower_case && !masked) return wrong("--lower-case", "masked language models");
  if (!config.vocab.empty() && !translation && !masked) return wrong("--vocab", "models of text");
  return {};
}

Status CheckElastic(const TrainConfig& config) {
  if (!config.Elastic()) {
    const bool chaos_unused = !config.chaos.empty() && !config.UsesServers();
    const bool unused = config.start_workers != 0 || chaos_unused || !config.store.empty();
    return !unused ? Status()
                   : Status::Error(Code::kInvalidArgument,
                                   "--start-workers, --store and --chaos go with an elastic run: "
                                   "--workers MIN:MAX");
  }
  PACELINE_TRY(Within("--workers: the least", config.min_workers, std::int64_t{1}, config.workers));
  PACELINE_TRY(Within("--start-workers", config.start_workers, config.min_workers, config.workers));
  PACELINE_TRY(Within("--heartbeat", config.heartbeat, 0.01, 3600.0));
  PACELINE_TRY(Within("--dead-timeout", config.dead_timeout, 4 * config.heartbeat, 36000.0));
  PACELINE_TRY(Within("--elastic-timeout", config.elastic_timeout, 0.0, 1e7));
  if (config.engine != "mpi") return {};
  return Status::Error(Code::kInvalidArgument,
                       "--engine mpi cannot go on without a dead worker; an elastic run needs "
                       "native or gloo");
}

Status CheckWorkers(const TrainConfig& config) {
  if (config.strategy == "local" && config.workers > 1) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("--strategy local is one worker, not {}; use allreduce", config.workers));
  }
  if (config.shards < config.workers) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--shards {} is less than --workers {}: each worker needs one",
                                     config.shards, config.workers));
  }
  return {};
}

auto ServerFields(const TrainConfig& config) {
  return std::tuple(config.mode, config.servers, config.wal, config.wal_group_ms,
                    config.table_store, config.table_memory_mb, config.staleness, config.geo_steps,
                    config.merge, config.delay_compensation, config.pull_ahead,
                    config.server_timeout, config.server_away);
}

Status CheckServerRanges(const TrainConfig& config) {
  constexpr std::uint64_t kMany = 1'000'000;
  constexpr double kLarge = 1e6;
  PACELINE_TRY(OneOf("--mode", config.mode, {"sync", "async", "half-async", "geo", "ssp"}));
  PACELINE_TRY(OneOf("--server-away", config.server_away, {"wait", "stale"}));
  PACELINE_TRY(OneOf("--wal", config.wal, {"always", "group", "off"}));
  PACELINE_TRY(OneOf("--table-store", config.table_store, {"memory", "rocksdb"}));
  PACELINE_TRY(Within<std::int64_t>("--servers", config.servers, 1, 1000));
  PACELINE_TRY(Within<std::int64_t>("--wal-group-ms", config.wal_group_ms, 0, 60'000));
  PACELINE_TRY(Within<std::int64_t>("--table-memory-mb", config.table_memory_mb, 1, 1'000'000));
  PACELINE_TRY(Within<std::uint64_t>("--staleness", config.staleness, 0, kMany));
  PACELINE_TRY(Within<std::uint64_t>("--geo-steps", config.geo_steps, 1, kMany));
  PACELINE_TRY(Within<std::uint64_t>("--merge", config.merge, 1, kMany));
  PACELINE_TRY(Within("--delay-compensation", config.delay_compensation, 0.0, kLarge));
  return Within("--server-timeout", config.server_timeout, 0.1, kLarge);
}

// In a sum over trainers, each of which sums its own shards, the fixed tree over all shards comes
// out only if every trainer's shards are a whole subtree.
bool EachTrainerHasASubtree(const TrainConfig& config) {
  const std::int64_t each = config.shards / config.workers;
  return each * config.workers == config.shards && (each & (each - 1)) == 0;
}

Status CheckServers(const TrainConfig& config) {
  const auto wrong = [](std::string text) {
    return Status::Error(Code::kInvalidArgument, std::move(text));
  };
  if (!config.UsesServers()) {
    if (ServerFields(config) == ServerFields(TrainConfig{})) return {};
    return wrong(
        "--servers, --mode and the other flags of parameter servers go with --strategy ps");
  }
  PACELINE_TRY(CheckServerRanges(config));
  if (config.Elastic() && (config.mode == "sync" || config.mode == "ssp")) {
    return wrong(
        fmt::format("--mode {} waits for every trainer: it needs a fixed number of "
                    "--workers, not {}",
                    config.mode, config.WorkersText()));
  }
  if (config.Elastic() && config.delay_compensation != 0) {
    return wrong(
        "--delay-compensation needs servers that know what each trainer pulled last: it goes with "
        "a fixed number of --workers");
  }
  const bool async = config.mode == "async" || config.mode == "half-async";
  if (config.server_away == "stale" && (!async || config.delay_compensation != 0)) {
    return wrong(
        "--server-away stale goes with --mode async and half-async, without --delay-compensation");
  }
  if (config.mode == "sync" && !config.Fused() && !EachTrainerHasASubtree(config)) {
    return wrong(
        fmt::format("--shards {}: in --mode sync it must be --workers {} times a power of "
                    "two",
                    config.shards, config.workers));
  }
  if (config.mode == "geo" && (config.optimizer != "sgd" || config.momentum != 0)) {
    return wrong(
        fmt::format("--mode geo adds differences of parameters; it goes with --optimizer "
                    "sgd without --momentum, not {}",
                    config.optimizer));
  }
  if (config.clip_norm != 0) {
    return wrong(
        "--clip-norm needs the sum of all gradients, which with --strategy ps no trainer sees");
  }
  if (config.pull_ahead && (!config.Fused() || config.mode == "sync" || config.mode == "geo" ||
                            config.delay_compensation != 0)) {
    return wrong(
        "--pull-ahead goes with models with tables in --mode async, half-async and ssp, and "
        "without "
        "--delay-compensation");
  }
  if (config.delay_compensation != 0 && config.mode != "async") {
    return wrong(fmt::format("--delay-compensation goes with --mode async, not {}", config.mode));
  }
  return {};
}

Status CheckImageSize(const TrainConfig& config, const model::ModelCard& card) {
  if (config.image_size == 0) return {};
  PACELINE_TRY(Within<std::int64_t>("--image-size", config.image_size, 8, 4096));
  if (card.any_image_size) return {};
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("--image-size is {}; {} takes one size only", config.image_size, card.name));
}

Status CheckScriptFlags(const TrainConfig& config, const model::ModelCard& card) {
  if (config.loss != "cross-entropy" && config.loss != "mse") {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("--loss is '{}'; it takes one of: cross-entropy, mse", config.loss));
  }
  const TrainConfig plain;
  if (IsScript(config.model) || (config.loss == plain.loss && config.classes == plain.classes)) {
    return {};
  }
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("--loss and --classes go with MODEL.pt; {} has its own", card.name));
}

Status CheckQuestions(const TrainConfig& config, const model::ModelCard& card) {
  if (config.analogies.empty() && config.similarities.empty()) return {};
  if (card.family == model::Family::kWords && !config.Synthetic()) return {};
  return Status::Error(Code::kInvalidArgument,
                       "--analogies and --similarities ask about the words of a text: they go with "
                       "word2vec and --data PATH");
}

Status CheckRanges(const TrainConfig& config) {
  constexpr std::int64_t kMany = 1'000'000;
  constexpr double kLarge = 1e6;
  constexpr std::uint64_t kMaxCount = 1'000'000'000'000;
  PACELINE_TRY(Within<std::int64_t>("--batch", config.batch, 1, kMany));
  PACELINE_TRY(Within<std::int64_t>("--classes", config.classes, 1, kMany));
  PACELINE_TRY(Within<std::int64_t>("--workers", config.workers, 1, 4096));
  PACELINE_TRY(Within<std::int64_t>("--shards", config.shards, 1, 65'536));
  PACELINE_TRY(Within<std::int64_t>("--threads", config.threads, 1, 1024));
  PACELINE_TRY(Within<std::int64_t>("--prefetch", config.prefetch, 1, 64));
  PACELINE_TRY(Within<std::int64_t>("--data-threads", config.data_threads, 1, 256));
  PACELINE_TRY(Within<std::int64_t>("--keep", config.keep, 2, 1000));
  PACELINE_TRY(Within<std::uint64_t>("--steps", config.steps, 0, kMaxCount));
  PACELINE_TRY(Within<std::uint64_t>("--epochs", config.epochs, 0, kMaxCount));
  PACELINE_TRY(Within<std::uint64_t>("--train-samples", config.train_samples, 1, kMaxCount));
  PACELINE_TRY(Within<std::uint64_t>("--nan-limit", config.nan_limit, 1, kMaxCount));
  PACELINE_TRY(Within<std::int64_t>("--bucket-kb", config.bucket_kb, 1, kMany));
  PACELINE_TRY(Within<std::int64_t>("--restarts", config.restarts, 0, 1'000'000'000));
  PACELINE_TRY(Within("--blame-every", config.blame_every, 0.0, kLarge));
  PACELINE_TRY(Within("--collective-timeout", config.collective_timeout, 0.1, kLarge));
  PACELINE_TRY(Within("--lr", config.lr, 0.0, kLarge));
  return Within("--clip-norm", config.clip_norm, 0.0, kLarge);
}

}  // namespace

Status Resolve(TrainConfig& config, const model::ModelCard& card, int cores) {
  if (config.strategy.empty()) {
    config.strategy = config.workers > 1 || config.Elastic() ? "allreduce" : "local";
  }
  if (config.Elastic() && config.start_workers == 0) config.start_workers = config.workers;
  if (config.batch == 0) config.batch = config.batch_tokens > 0 ? 1 : card.batch;
  PACELINE_TRY(FillRecipe(config, card));
  if (config.shards == 0) config.shards = config.workers;
  if (config.lr == 0) config.lr = card.learning_rate;
  config.threads_given = config.threads_given || config.threads != 0;
  if (config.threads == 0) {
    const int divided =
        std::max(1, cores / static_cast<int>(std::max<std::int64_t>(1, config.workers)));
    config.threads = config.reproducible ? 1 : divided;
  }
  if (config.steps != 0 && config.epochs != 0) {
    return Status::Error(Code::kInvalidArgument, "give --steps or --epochs, not both");
  }
  if (config.steps == 0 && config.epochs == 0) config.epochs = 1;
  PACELINE_TRY(CheckRanges(config));
  PACELINE_TRY(CheckImageSize(config, card));
  PACELINE_TRY(CheckScriptFlags(config, card));
  PACELINE_TRY(CheckQuestions(config, card));
  PACELINE_TRY(CheckChoices(config));
  PACELINE_TRY(CheckRecipe(config, card));
  PACELINE_TRY(CheckText(config, card));
  PACELINE_TRY(CheckTableFlags(config, card));
  PACELINE_TRY(CheckElastic(config));
  PACELINE_TRY(CheckWorkers(config));
  return CheckServers(config);
}

bool TrainConfig::Fused() const {
  const auto card = model::FindModel(model);
  return card.ok() && (*card)->Fused();
}

std::string TrainConfig::WorkersText() const {
  return Elastic() ? fmt::format("{}:{}", min_workers, workers) : std::to_string(workers);
}

Status TrainConfig::SetWorkers(const std::string& text) {
  const auto number = [&](std::string_view part, std::int64_t& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() && value >= 1;
  };
  const std::string_view all(text);
  const std::size_t colon = all.find(':');
  std::int64_t low = 1, high = 1;
  const bool ok = colon == std::string_view::npos
                      ? number(all, high)
                      : number(all.substr(0, colon), low) && number(all.substr(colon + 1), high);
  if (!ok || low > high) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("--workers is '{}'; it takes a number, or MIN:MAX for an elastic run", text));
  }
  workers = high;
  min_workers = colon == std::string_view::npos ? 0 : low;
  return {};
}

std::map<std::string, std::string> TrainConfig::Identity() const {
  std::map<std::string, std::string> identity{
      {"model", model},
      {"batch", std::to_string(batch)},
      {"shards", std::to_string(shards)},
      {"seed", std::to_string(seed)},
      {"augment", augment},
      {"bad-record", bad_record},
      {"optimizer", optimizer},
      {"lr", fmt::format("{}", lr)},
      {"momentum", fmt::format("{}", momentum)},
      {"weight-decay", fmt::format("{}", weight_decay)},
      {"clip-norm", fmt::format("{}", clip_norm)},
      {"lr-schedule", lr_schedule},
      {"warmup-steps", std::to_string(warmup_steps)},
  };
  if (IsScript(model)) identity["loss"] = loss;
  if (IsScript(model) && classes != 10) identity["classes"] = std::to_string(classes);
  if (image_size != 0) identity["image-size"] = std::to_string(image_size);
  if (lr_schedule == "step") {
    identity["lr-decay-every"] = std::to_string(lr_decay_every);
    identity["lr-gamma"] = fmt::format("{}", lr_gamma);
  }
  if (batch_tokens > 0) identity["batch-tokens"] = std::to_string(batch_tokens);
  if (!languages.empty()) identity["languages"] = languages;
  if (lower_case) identity["lower-case"] = "true";
  if (UsesServers()) {  // how many they are decides nothing
    identity["strategy"] = strategy;
    identity["mode"] = mode;
    if (mode == "ssp") identity["staleness"] = std::to_string(staleness);
    if (mode == "geo") identity["geo-steps"] = std::to_string(geo_steps);
    if (mode == "half-async") identity["merge"] = std::to_string(merge);
    if (mode == "async") identity["delay-compensation"] = fmt::format("{}", delay_compensation);
  }
  AddRecipeIdentity(*this, identity);
  AddTableIdentity(*this, identity);
  return identity;
}

std::vector<std::string> Differences(const std::map<std::string, std::string>& checkpoint,
                                     const std::map<std::string, std::string>& now) {
  const auto find = [](const auto& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? std::string("(none)") : found->second;
  };
  std::map<std::string, std::string> all = checkpoint;
  all.insert(now.begin(), now.end());
  std::vector<std::string> lines;
  for (const auto& [key, value] : all) {
    const std::string before = find(checkpoint, key), after = find(now, key);
    if (before != after)
      lines.push_back(fmt::format("{}: checkpoint {}, now {}", key, before, after));
  }
  return lines;
}

}  // namespace paceline::job

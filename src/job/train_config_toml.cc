// A configuration as the file that --config reads.
#include "job/train_config.h"

#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "job/model_choice.h"

namespace paceline::job {

namespace {

class TomlText {
 public:
  void Text(const char* key, const std::string& value) {
    text_ += fmt::format("{} = {}\n", key, JsonQuote(value));
  }
  template <typename Value>
  void Number(const char* key, Value value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddRecipe(const TrainConfig& config, TomlText& toml) {
  toml.Text("optimizer", config.optimizer);
  toml.Number("lr", config.lr);
  toml.Number("momentum", config.momentum);
  toml.Number("beta1", config.beta1);
  toml.Number("beta2", config.beta2);
  toml.Number("epsilon", config.epsilon);
  toml.Number("trust-coefficient", config.trust_coefficient);
  toml.Number("ftrl-l1", config.ftrl_l1);
  toml.Number("weight-decay", config.weight_decay);
  toml.Text("decay-exclude", config.decay_exclude);
  toml.Number("label-smoothing", config.label_smoothing);
  toml.Number("mixup", config.mixup);
  toml.Number("ema", config.ema);
  toml.Text("loss-scale", config.loss_scale);
  toml.Text("lr-schedule", config.lr_schedule);
  toml.Number("warmup-steps", config.warmup_steps);
  toml.Number("lr-decay-every", config.lr_decay_every);
  if (!config.lr_decay_at.empty()) toml.Text("lr-decay-at", config.lr_decay_at);
  toml.Number("lr-gamma", config.lr_gamma);
  toml.Number("lr-floor", config.lr_floor);
  toml.Number("lr-power", config.lr_power);
  toml.Number("clip-norm", config.clip_norm);
  toml.Text("nan-policy", config.nan_policy);
  toml.Number("nan-limit", config.nan_limit);
}

}  // namespace

std::string ToToml(const TrainConfig& config) {
  TomlText toml;
  toml.Text("model", config.model);
  toml.Text("data", config.data);
  if (!config.data_cache.empty()) toml.Text("data-cache", config.data_cache);
  toml.Number("image-size", config.image_size);
  toml.Number("train-samples", config.train_samples);
  toml.Number("eval-samples", config.eval_samples);
  if (!config.analogies.empty()) toml.Text("analogies", config.analogies);
  if (!config.similarities.empty()) toml.Text("similarities", config.similarities);
  toml.Text("augment", config.augment);
  toml.Text("bad-record", config.bad_record);
  if (!config.init_from.empty()) toml.Text("init-from", config.init_from);
  if (IsScript(config.model)) {
    toml.Text("loss", config.loss);
    toml.Number("classes", config.classes);
    toml.Number("trust-model-files", config.trust_model_files);
  }
  if (!config.worker_program.empty()) toml.Text("worker-program", config.worker_program);
  toml.Number("prefetch", config.prefetch);
  toml.Number("data-threads", config.data_threads);
  if (!config.vocab.empty()) toml.Text("vocab", config.vocab);
  if (!config.languages.empty()) toml.Text("languages", config.languages);
  if (config.batch_tokens > 0) toml.Number("batch-tokens", config.batch_tokens);
  if (config.lower_case) toml.Number("lower-case", config.lower_case);
  toml.Text("strategy", config.strategy);
  toml.Text("workers", config.WorkersText());
  if (config.Elastic()) {
    toml.Number("start-workers", config.start_workers);
    toml.Number("elastic-timeout", config.elastic_timeout);
    toml.Number("heartbeat", config.heartbeat);
    toml.Number("dead-timeout", config.dead_timeout);
    if (!config.store.empty()) toml.Text("store", config.store);
  }
  if (config.Elastic() || config.UsesServers()) toml.Number("restarts", config.restarts);
  if (config.UsesServers()) {
    toml.Text("mode", config.mode);
    toml.Number("servers", config.servers);
    toml.Text("wal", config.wal);
    toml.Number("wal-group-ms", config.wal_group_ms);
    toml.Text("table-store", config.table_store);
    toml.Number("table-memory-mb", config.table_memory_mb);
    toml.Number("staleness", config.staleness);
    toml.Number("geo-steps", config.geo_steps);
    toml.Number("merge", config.merge);
    toml.Number("delay-compensation", config.delay_compensation);
    toml.Number("pull-ahead", config.pull_ahead);
    toml.Number("server-timeout", config.server_timeout);
    toml.Text("server-away", config.server_away);
  }
  for (const auto& [key, value] : {std::pair("admit-count", config.admit_count),
                                   std::pair("admit-probability", config.admit_probability),
                                   std::pair("evict-after", config.evict_after),
                                   std::pair("table-optimizer", config.table_optimizer),
                                   std::pair("table-lr-scale", config.table_lr_scale)}) {
    if (!value.empty()) toml.Text(key, value);
  }
  toml.Text("engine", config.engine);
  toml.Text("placement", config.placement);
  toml.Text("shared-memory", config.shared_memory);
  toml.Number("bucket-kb", config.bucket_kb);
  toml.Number("verify-every", config.verify_every);
  toml.Number("blame-every", config.blame_every);
  toml.Number("collective-timeout", config.collective_timeout);
  if (!config.bind.empty()) toml.Text("bind", config.bind);
  toml.Number("shards", config.shards);
  toml.Number("batch", config.batch);
  toml.Number("steps", config.steps);
  toml.Number("epochs", config.epochs);
  toml.Number("seed", config.seed);
  toml.Number("threads", config.threads);
  toml.Number("reproducible", config.reproducible);
  AddRecipe(config, toml);
  toml.Number("eval-every", config.eval_every);
  toml.Number("patience", config.patience);
  toml.Number("checkpoint-every", config.checkpoint_every);
  toml.Number("keep-best", config.keep_best);
  toml.Number("keep", config.keep);
  toml.Number("checkpoint-required", config.checkpoint_required);
  return toml.Take();
}

}  // namespace paceline::job

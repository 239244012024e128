// A configuration as the file that --config reads.
#include "job/train_config.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "job/model_choice.h"

namespace paceline::job {

std::string ToToml(const TrainConfig& config) {
  std::string toml;
  const auto text = [&](const char* key, const std::string& value) {
    toml += fmt::format("{} = {}\n", key, JsonQuote(value));
  };
  const auto number = [&](const char* key, auto value) {
    toml += fmt::format("{} = {}\n", key, value);
  };
  text("model", config.model);
  text("data", config.data);
  if (!config.data_cache.empty()) text("data-cache", config.data_cache);
  number("image-size", config.image_size);
  number("train-samples", config.train_samples);
  number("eval-samples", config.eval_samples);
  if (!config.analogies.empty()) text("analogies", config.analogies);
  if (!config.similarities.empty()) text("similarities", config.similarities);
  text("augment", config.augment);
  text("bad-record", config.bad_record);
  if (!config.init_from.empty()) text("init-from", config.init_from);
  if (IsScript(config.model)) {
    text("loss", config.loss);
    number("classes", config.classes);
    number("trust-model-files", config.trust_model_files);
  }
  if (!config.worker_program.empty()) text("worker-program", config.worker_program);
  number("prefetch", config.prefetch);
  number("data-threads", config.data_threads);
  if (!config.vocab.empty()) text("vocab", config.vocab);
  if (!config.languages.empty()) text("languages", config.languages);
  if (config.batch_tokens > 0) number("batch-tokens", config.batch_tokens);
  if (config.lower_case) number("lower-case", config.lower_case);
  text("strategy", config.strategy);
  text("workers", config.WorkersText());
  if (config.Elastic()) {
    number("start-workers", config.start_workers);
    number("elastic-timeout", config.elastic_timeout);
    number("heartbeat", config.heartbeat);
    number("dead-timeout", config.dead_timeout);
    if (!config.store.empty()) text("store", config.store);
  }
  if (config.Elastic() || config.UsesServers()) number("restarts", config.restarts);
  if (config.UsesServers()) {
    text("mode", config.mode);
    number("servers", config.servers);
    text("wal", config.wal);
    number("wal-group-ms", config.wal_group_ms);
    text("table-store", config.table_store);
    number("table-memory-mb", config.table_memory_mb);
    number("staleness", config.staleness);
    number("geo-steps", config.geo_steps);
    number("merge", config.merge);
    number("delay-compensation", config.delay_compensation);
    number("pull-ahead", config.pull_ahead);
    number("server-timeout", config.server_timeout);
    text("server-away", config.server_away);
  }
  text("engine", config.engine);
  text("placement", config.placement);
  text("shared-memory", config.shared_memory);
  number("bucket-kb", config.bucket_kb);
  number("verify-every", config.verify_every);
  number("blame-every", config.blame_every);
  number("collective-timeout", config.collective_timeout);
  if (!config.bind.empty()) text("bind", config.bind);
  number("shards", config.shards);
  number("batch", config.batch);
  number("steps", config.steps);
  number("epochs", config.epochs);
  number("seed", config.seed);
  number("threads", config.threads);
  number("reproducible", config.reproducible);
  text("optimizer", config.optimizer);
  number("lr", config.lr);
  number("momentum", config.momentum);
  number("beta1", config.beta1);
  number("beta2", config.beta2);
  number("epsilon", config.epsilon);
  number("trust-coefficient", config.trust_coefficient);
  number("weight-decay", config.weight_decay);
  text("decay-exclude", config.decay_exclude);
  number("label-smoothing", config.label_smoothing);
  number("mixup", config.mixup);
  number("ema", config.ema);
  text("loss-scale", config.loss_scale);
  text("lr-schedule", config.lr_schedule);
  number("warmup-steps", config.warmup_steps);
  number("lr-decay-every", config.lr_decay_every);
  number("lr-gamma", config.lr_gamma);
  number("lr-floor", config.lr_floor);
  number("lr-power", config.lr_power);
  number("clip-norm", config.clip_norm);
  text("nan-policy", config.nan_policy);
  number("nan-limit", config.nan_limit);
  number("eval-every", config.eval_every);
  number("patience", config.patience);
  number("checkpoint-every", config.checkpoint_every);
  number("keep-best", config.keep_best);
  number("keep", config.keep);
  number("checkpoint-required", config.checkpoint_required);
  return toml;
}

}  // namespace paceline::job

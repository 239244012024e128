#include "job/run_summary.h"

#include <cmath>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "job/progress.h"

namespace paceline::job {

namespace {

JsonObject PhasesJson(const PhaseTimes& phases) {
  JsonObject json;
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    json.Add(PhaseName(phase), ToSeconds(phases.Of(phase)));
  }
  return json;
}

std::string PhasesText(const PhaseTimes& phases, double wall_seconds) {
  std::string text;
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    const double share = wall_seconds > 0 ? 100 * ToSeconds(phases.Of(phase)) / wall_seconds : 0;
    if (share < 0.05) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", PhaseName(phase), share);
  }
  return text;
}

JsonObject MetricsJson(const std::vector<std::pair<std::string, double>>& metrics) {
  JsonObject json;
  for (const auto& [name, value] : metrics) json.Add(name, value);
  return json;
}

}  // namespace

std::string RunSummary::Json() const {
  return JsonObject()
      .Add("model", model)
      .Add("strategy", strategy)
      .Add("mode", mode)
      .Add("workers", workers)
      .Add("group", group)
      .Add("shards", shards)
      .Add("batch", batch)
      .Add("threads", threads)
      .Add("optimizer", optimizer)
      .Add("data", data)
      .Add("seed", seed)
      .Add("steps", steps)
      .Add("samples", samples)
      .Add("epochs", epochs)
      .Add("resumed_from_step", resumed_from_step)
      .Add("seconds", seconds)
      .Add("wall_seconds", wall_seconds)
      .Add("samples_per_second", samples_per_second)
      .Add("final_loss", final_loss)
      .Add("train_accuracy", train_accuracy)
      .Add("accuracy", evaluated ? accuracy : kNone)
      .Add("eval_loss", evaluated ? eval_loss : kNone)
      .Add("auc", evaluated ? auc : kNone)
      .Add("best_auc", evaluated ? best_auc : kNone)
      .Add("pair_ratio", evaluated ? pair_ratio : kNone)
      .Add("similarity", evaluated ? similarity : kNone)
      .Add("metrics", MetricsJson(metrics))
      .Add("eval_samples", eval_samples)
      .Add("best_metric", best_metric)
      .Add("best_value", best_value)
      .Add("best_step", best_step)
      .Add("params", params)
      .Add("tensors", tensors)
      .Add("params_hash", params_hash)
      .Add("ema_hash", ema_hash)
      .Add("skipped_steps", skipped_steps)
      .Add("bad_records", bad_records)
      .Add("checkpoint_failures", checkpoint_failures)
      .Add("max_rss_bytes", max_rss_bytes)
      .Add("interrupted", interrupted)
      .Add("stopped_early", stopped_early)
      .Add("straggler", straggler)
      .Add("phases", PhasesJson(phases))
      .Add("run", run)
      .Text();
}

std::string RunSummary::HeldOutText() const {
  std::string text;
  const auto add = [&](double value, const std::string& part) {
    if (!std::isnan(value)) text += (text.empty() ? "" : ", ") + part;
  };
  add(accuracy, fmt::format("accuracy {:.1f} %", 100 * accuracy));
  add(eval_loss, fmt::format("loss {:.4f}", eval_loss));
  add(auc, fmt::format("AUC {:.4f}", auc));
  add(best_auc, fmt::format("best possible {:.4f}", best_auc));
  add(pair_ratio, fmt::format("right/wrong order {:.2f}", pair_ratio));
  add(similarity, fmt::format("similarity {:.3f}", similarity));
  for (const auto& [name, value] : metrics) add(value, fmt::format("{} {:.4f}", name, value));
  return fmt::format("{} on {} samples", text, eval_samples);
}

std::string RunSummary::Text() const {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("model", fmt::format("{} ({} parameters in {} tensors)", model, params, tensors));
  line("trained",
       fmt::format("{} steps, {} samples, {:.2f} epochs of {} data{}", steps, samples, epochs, data,
                   interrupted     ? " (interrupted)"
                   : stopped_early ? " (stopped early: no better evaluation any more)"
                                   : ""));
  line(
      "speed",
      fmt::format("{:.1f} samples/s with {}{} thread{}, {} in steps, {} in all", samples_per_second,
                  workers > 1 ? fmt::format("{} workers of ", workers) : "", threads,
                  threads == 1 ? "" : "s", RenderDuration(seconds), RenderDuration(wall_seconds)));
  line("loss", fmt::format("{:.4f}", final_loss) +
                   (std::isnan(train_accuracy)
                        ? ""
                        : fmt::format(" (training accuracy {:.1f} %)", 100 * train_accuracy)));
  if (evaluated) line("held out", HeldOutText());
  if (!best_metric.empty()) {
    line("best", fmt::format("{} {:.4f} at step {}", best_metric, best_value, best_step));
  }
  line("time", PhasesText(phases, wall_seconds));
  if (!group.empty()) line("group", group);
  if (!straggler.empty()) line("waiting", straggler);
  if (!params_hash.empty()) line("hash", params_hash);
  if (!ema_hash.empty()) line("average", ema_hash);
  if (skipped_steps > 0) line("skipped", fmt::format("{} steps with NaN or Inf", skipped_steps));
  if (bad_records > 0) line("bad data", fmt::format("{} records left out", bad_records));
  if (checkpoint_failures > 0) {
    line("checkpoints", fmt::format("{} could not be written", checkpoint_failures));
  }
  line("run", run);
  if (interrupted) line("resume with", fmt::format("paceline train --resume --run {}", run));
  return text;
}

}  // namespace paceline::job

#include "train/run_summary.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "job/progress.h"

namespace paceline::train {

namespace {

JsonObject PhasesJson(const job::PhaseTimes& phases) {
  JsonObject json;
  for (std::size_t i = 0; i < job::kPhases; ++i) {
    const auto phase = static_cast<job::Phase>(i);
    json.Add(job::PhaseName(phase), ToSeconds(phases.Of(phase)));
  }
  return json;
}

std::string PhasesText(const job::PhaseTimes& phases, double wall_seconds) {
  std::string text;
  for (std::size_t i = 0; i < job::kPhases; ++i) {
    const auto phase = static_cast<job::Phase>(i);
    const double share = wall_seconds > 0 ? 100 * ToSeconds(phases.Of(phase)) / wall_seconds : 0;
    if (share < 0.05) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", job::PhaseName(phase), share);
  }
  return text;
}

}  // namespace

std::string RunSummary::Json() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // becomes null
  return JsonObject()
      .Add("model", model)
      .Add("strategy", strategy)
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
      .Add("eval_samples", eval_samples)
      .Add("params", params)
      .Add("tensors", tensors)
      .Add("params_hash", params_hash)
      .Add("skipped_steps", skipped_steps)
      .Add("bad_records", bad_records)
      .Add("checkpoint_failures", checkpoint_failures)
      .Add("max_rss_bytes", max_rss_bytes)
      .Add("interrupted", interrupted)
      .Add("straggler", straggler)
      .Add("phases", PhasesJson(phases))
      .Add("run", run)
      .Text();
}

std::string RunSummary::Text() const {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("model", fmt::format("{} ({} parameters in {} tensors)", model, params, tensors));
  line("trained", fmt::format("{} steps, {} samples, {:.2f} epochs of {} data{}", steps, samples,
                              epochs, data, interrupted ? " (interrupted)" : ""));
  line("speed",
       fmt::format("{:.1f} samples/s with {}{} thread{}, {} in steps, {} in all",
                   samples_per_second, workers > 1 ? fmt::format("{} workers of ", workers) : "",
                   threads, threads == 1 ? "" : "s", job::RenderDuration(seconds),
                   job::RenderDuration(wall_seconds)));
  line("loss",
       fmt::format("{:.4f} (training accuracy {:.1f} %)", final_loss, 100 * train_accuracy));
  if (evaluated) {
    line("held out", fmt::format("accuracy {:.1f} %, loss {:.4f}, AUC {:.4f} on {} samples",
                                 100 * accuracy, eval_loss, auc, eval_samples));
  }
  line("time", PhasesText(phases, wall_seconds));
  if (!group.empty()) line("group", group);
  if (!straggler.empty()) line("waiting", straggler);
  line("hash", params_hash);
  if (skipped_steps > 0) line("skipped", fmt::format("{} steps with NaN or Inf", skipped_steps));
  if (bad_records > 0) line("bad data", fmt::format("{} records left out", bad_records));
  if (checkpoint_failures > 0) {
    line("checkpoints", fmt::format("{} could not be written", checkpoint_failures));
  }
  line("run", run);
  if (interrupted) line("resume with", fmt::format("paceline train --resume --run {}", run));
  return text;
}

}  // namespace paceline::train

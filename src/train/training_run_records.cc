// The part of TrainingRun that tells what happened: records, progress, trace and summary.
#include <sys/resource.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "train/training_run.h"

namespace paceline::train {

namespace {

std::int64_t MaxRssBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

Status TrainingRun::RecordStart() {
  Record("start", JsonObject()
                      .Add("run", directory_.path())
                      .Add("model", config_.model)
                      .Add("step", position_.next_step.value())
                      .Add("total_steps", plan_.Steps())
                      .Add("threads", config_.threads)
                      .Add("workers", config_.workers)
                      .Add("seed", config_.seed)
                      .Add("dataset_size", plan_.dataset_size)
                      .Add("batch", config_.batch)
                      .Add("shards", config_.shards)
                      .Add("total_samples", plan_.total_samples)
                      .Add("push_steps", remote_ ? share_.steps_per_round : 0)
                      .Add("leased", Lent())
                      .Add("group", environment_.group));
  PACELINE_LOG(Info, "training {} from step {} to {} with {} thread(s) in {}", config_.model,
               position_.next_step.value(), plan_.Steps(), config_.threads, directory_.path());
  return Leads() ? KeepConfig() : Status();
}

// Who waits for whom, and for which connection. Each worker looks at its own connections a few
// times between two reports and tells the others with its next step.
void TrainingRun::WatchGroup(const StepOutcome& outcome, std::chrono::nanoseconds took) {
  stragglers_.Add(outcome.busy_seconds);
  if (environment_.engine == nullptr) return;
  const Instant now = environment_.clock.Now();
  blame_.Add(outcome.busy_seconds, outcome.links, ToSeconds(took));
  const double since_look = ToSeconds(now - link_seen_);
  if (config_.blame_every > 0 && since_look >= config_.blame_every / 4) {
    link_ = link_watch_.Sample(environment_.engine->Links(), since_look);
    link_seen_ = now;
  }
  if (!blame_.Due(now)) return;
  const auto blame = blame_.Take(now);
  if (!blame) return;
  Record("blame", JsonObject().Add("step", position_.next_step.value()).Add("text", blame->text));
  if (blame->notable) Note(blame->text);
}

// Two runs can then be compared step by step.
void TrainingRun::AddStateHash(JsonObject& record) const {
  const Trainer::StateHash hash = trainer_->HashState();
  JsonObject tensors;
  for (const auto& [name, value] : hash.tensors) tensors.Add(name, value);
  record.Add("state", hash.all).Add("tensors", tensors);
}

void TrainingRun::TraceReductions() {
  if (remote_) {  // what brought the parameters of this step
    const ArrivingParameters::Timing& pull = remote_->arriving().last_pull();
    environment_.trace->Span("pull", job::Trace::Track::kReduce, pull.started, pull.finished);
  }
  std::size_t bucket = 0;
  for (const GradientExchange::Timing& timing : trainer_->ReductionTimings()) {
    environment_.trace->Span(
        fmt::format("bucket {} ({:.1f} MB)", bucket++, static_cast<double>(timing.bytes) / 1e6),
        job::Trace::Track::kReduce, timing.started, timing.finished);
  }
}

// All ranks leave a barrier at about the same moment: that is where their clocks are aligned.
Status TrainingRun::WriteTrace() {
  std::vector<job::RankTrace> ranks(1);
  const auto encode = [&] { return job::EncodeTrace(*environment_.trace, run_started_); };
  if (environment_.engine == nullptr) {
    ranks[0].encoded = encode();
  } else {
    PACELINE_ASSIGN(const std::vector<std::string> all,
                    GatherTexts(*environment_.engine, encode()));
    ranks.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) ranks[i] = {Rank(i), "worker", all[i]};
  }
  if (!Leads()) return {};
  const Status written = job::WriteChromeTrace(config_.trace, ranks);
  if (written.ok()) Note(fmt::format("trace: {}", config_.trace));
  return written;
}

Status TrainingRun::NoteSkippedStep(const StepOutcome& outcome) {
  if (outcome.applied) {
    position_.skipped_in_row = 0;
    return {};
  }
  ++position_.skipped;
  const std::uint64_t step = std::max<std::uint64_t>(1, position_.next_step.value()) - 1;
  if (outcome.overflowed) {
    PACELINE_LOG(Info, "step {}: the gradient overflows with a loss scale of {}; step skipped",
                 step, outcome.loss_scale);
    return {};
  }
  ++position_.skipped_in_row;
  const std::uint64_t limit = config_.nan_policy == "stop" ? 1 : config_.nan_limit;
  if (position_.skipped_in_row >= limit) {
    return Status::Error(
        Code::kNotFinite,
        fmt::format(
            "step {}: loss {} and gradient norm {} are not finite, {} step(s) in a row; the "
            "parameters are those before; try a smaller --lr or --clip-norm",
            step, outcome.loss, outcome.gradient_norm, position_.skipped_in_row));
  }
  Warn(fmt::format("step {}: loss {} or gradient norm {} is not finite; step skipped ({} of {})",
                   step, outcome.loss, outcome.gradient_norm, position_.skipped_in_row, limit));
  return {};
}

void TrainingRun::Warn(const std::string& text) {
  progress_.Finish();
  PACELINE_LOG(Warning, "{}", text);
  Record("warning", JsonObject().Add("message", text));
}

void TrainingRun::Record(const char* type, const JsonObject& fields) {
  if (!events_) return;  // the first worker keeps the records
  JsonObject all = fields;
  if (generation_ != Generation(0)) all.Add("generation", generation_.value());
  const Status written = events_->Write(type, all);
  if (!written.ok()) PACELINE_LOG(Warning, "{}; training goes on", written.message());
}

// In an elastic run anybody may come to lead, and only that one speaks.
void TrainingRun::Note(const std::string& text) {
  if (Leads()) progress_.Note(text);
}

void TrainingRun::ShowProgress() {
  if (!Leads()) return;
  const std::uint64_t done =
      std::max<std::uint64_t>(1, position_.next_step.value() - first_step_.value());
  const double seconds = ToSeconds(step_time_);
  const double per_step = seconds / static_cast<double>(done);
  progress_.Update(
      {.model = config_.model,
       .step = position_.next_step.value(),
       .total_steps = plan_.Steps(),
       .epoch = static_cast<double>(position_.samples) / static_cast<double>(plan_.dataset_size),
       .loss = recent_loss_,
       .accuracy = recent_accuracy_,
       .samples_per_second = static_cast<double>(position_.samples - first_sample_) / seconds,
       .seconds_left =
           per_step * static_cast<double>(plan_.Steps() - position_.next_step.value())});
}

void TrainingRun::SummarizeEvaluation(job::RunSummary& summary) const {
  if (!evaluation_) return;
  summary.evaluated = true;
  summary.eval_samples = evaluation_->samples;
  summary.accuracy = evaluation_->Of("accuracy");
  summary.eval_loss = evaluation_->Of("loss");
  summary.auc = evaluation_->Of("auc");
  for (const Metric& metric : evaluation_->metrics) {
    const bool known = metric.name == "accuracy" || metric.name == "loss" || metric.name == "auc";
    if (!known) summary.metrics.emplace_back(metric.name, metric.value);
  }
}

job::RunSummary TrainingRun::Summarize() const {
  job::RunSummary summary;
  summary.model = config_.model;
  summary.strategy = config_.strategy;
  summary.optimizer = config_.optimizer;
  summary.data = config_.data;
  summary.run = directory_.path();
  summary.workers = config_.workers;
  summary.shards = config_.shards;
  summary.batch = config_.batch;
  summary.threads = config_.threads;
  summary.seed = config_.seed;
  summary.steps = position_.next_step.value();
  summary.samples = position_.samples;
  summary.epochs = static_cast<double>(position_.samples) / static_cast<double>(plan_.dataset_size);
  summary.resumed_from_step = first_step_.value();
  summary.seconds = ToSeconds(step_time_);
  summary.wall_seconds = ToSeconds(environment_.clock.Now() - run_started_);
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(position_.samples - first_sample_) / summary.seconds
                          : 0;
  summary.final_loss = recent_loss_;
  summary.train_accuracy = recent_accuracy_;
  SummarizeEvaluation(summary);
  summary.params = trainer_->params().ElementCount();
  summary.tensors = trainer_->params().ranges().size();
  summary.params_hash = trainer_->params().Hash();
  if (trainer_->average() != nullptr) summary.ema_hash = trainer_->average()->Hash();
  if (position_.best.known) {
    summary.best_metric = trainer_->model().objective->Decides().metric;
    summary.best_value = position_.best.value;
    summary.best_step = position_.best.step.value();
  }
  summary.skipped_steps = position_.skipped;
  summary.bad_records = data_.BadRecords();
  summary.checkpoint_failures = save_failures_;
  summary.max_rss_bytes = MaxRssBytes();
  summary.stopped_early = GivesUp() && position_.next_step.value() < plan_.Steps();
  summary.interrupted = position_.next_step.value() < plan_.Steps() && !summary.stopped_early;
  summary.phases = trainer_->phases();
  summary.group = environment_.group;
  summary.straggler = stragglers_.Line();
  return summary;
}

}  // namespace paceline::train

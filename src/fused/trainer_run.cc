#include "fused/trainer_run.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/log.h"
#include "fused/evaluation.h"
#include "fused/job_description.h"
#include "fused/run_steps.h"
#include "kernel/hash.h"

namespace paceline::fused {

namespace {

using job::RunSummary;
using job::TrainConfig;

// How fast the shown loss follows: about the last twenty steps.
constexpr double kRecent = 0.05;

std::int64_t MaxRssBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

JsonObject PhaseMilliseconds(const job::PhaseTimes& phases) {
  JsonObject json;
  for (const job::Phase phase :
       {job::Phase::kData, job::Phase::kWait, job::Phase::kBackward, job::Phase::kApply}) {
    json.Add(job::PhaseName(phase), std::round(ToSeconds(phases.Of(phase)) * 1e6) / 1e3);
  }
  return json;
}

double OrNone(const std::optional<double>& value) { return value.value_or(RunSummary::kNone); }

class Run {
 public:
  Run(const TrainConfig& config, const RunEnvironment& environment, const ModelWithData& model,
      const TrainerContext& context, RunLog& log)
      : config_(config), environment_(environment), model_(model), context_(context), log_(log) {}

  Status Open();
  Result<std::optional<RunSummary>> Train();

 private:
  bool Stopping() const { return environment_.stop_signal() != 0; }
  // SIGTERM asks one trainer of an elastic run to leave it to the others.
  bool Leaving() const { return context_.elastic && environment_.stop_signal() == SIGTERM; }

  Status LeadIfDue();
  void RecordStart();
  Result<bool> TrainOneRound();
  void RecordStep(const StepOutcome& outcome, std::uint64_t steps_before,
                  std::chrono::nanoseconds took, const job::PhaseTimes& phases);
  void ShowProgress();
  Status TrainUntilEnd();
  Status AfterStep(const StepOutcome& outcome, std::uint64_t steps_before,
                   std::uint64_t samples_before);
  Status NoteSkippedStep(const StepOutcome& outcome);
  Status EvaluateNow();
  Status SaveNow();
  Status Finish();
  Result<std::string> HashDense();
  void AddEvaluation(RunSummary& summary) const;
  RunSummary Summarize();

  const TrainConfig& config_;
  const RunEnvironment& environment_;
  const ModelWithData& model_;
  const TrainerContext& context_;
  RunLog& log_;
  algo::BatchPlan plan_;
  std::unique_ptr<RunSteps> steps_;
  bool leads_ = false;  // keeps the records

  std::uint64_t first_step_ = 0, first_samples_ = 0;  // of this process
  std::optional<std::uint64_t> saved_at_;
  std::uint64_t save_failures_ = 0;
  std::uint64_t skipped_ = 0, skipped_in_row_ = 0;
  double recent_loss_ = 0;  // exponential average
  bool any_step_ = false;
  std::optional<Evaluation> evaluation_;  // of the parameters as they are
  std::string params_hash_;
  Instant started_{};
  std::chrono::nanoseconds step_time_{};
};

Status Run::Open() {
  PACELINE_ASSIGN(plan_, PlanOf(config_, model_.model->dataset_size()));
  PACELINE_TRY(InitialiseParameters(*model_.model, context_.spec, context_.store, config_.seed));
  PACELINE_ASSIGN(steps_, OpenSteps(
                              config_, *model_.model, plan_, context_,
                              [this] { return Stopping(); }, environment_.clock));
  first_step_ = steps_->steps();
  first_samples_ = steps_->samples();
  return {};
}

// The first trainer from the start; in an elastic run whoever is the oldest.
Status Run::LeadIfDue() {
  if (leads_ || !steps_->Leads()) return {};
  leads_ = true;
  PACELINE_TRY(log_.Keep(config_, environment_));
  if (steps_->steps() > 0) log_.Note(fmt::format("going on at step {}", steps_->steps()));
  for (const std::string& warning : model_.warnings) log_.Warn(warning);
  RecordStart();
  if (model_.vocabulary == nullptr || !log_.keeps_records()) return {};
  return model_.vocabulary->Save(log_.directory().VocabularyFile());
}

Result<std::optional<RunSummary>> Run::Train() {
  started_ = environment_.clock.Now();
  PACELINE_LOG(Info, "training {} from step {} to {}, {}", config_.model, first_step_,
               plan_.Steps(), environment_.group);
  const Status trained = TrainUntilEnd();
  log_.progress().Finish();
  // Whatever ended the training, the state is good: bad steps never reached it.
  if (trained.ok() || trained.code() == Code::kNotFinite) {
    PACELINE_TRY(context_.store.Flush());
    PACELINE_TRY(SaveNow().Wrap("the final snapshot"));
  }
  PACELINE_TRY(trained);
  steps_->Close();
  PACELINE_TRY(LeadIfDue());  // the one before may have died at the very end
  if (!leads_ || Leaving()) return std::optional<RunSummary>();
  PACELINE_TRY(Finish());
  return std::optional(Summarize());
}

void Run::RecordStart() {
  log_.Record("start", JsonObject()
                           .Add("run", config_.run)
                           .Add("model", config_.model)
                           .Add("step", steps_->steps())
                           .Add("total_steps", plan_.Steps())
                           .Add("threads", config_.threads)
                           .Add("workers", config_.workers)
                           .Add("seed", config_.seed)
                           .Add("dataset_size", plan_.dataset_size)
                           .Add("batch", config_.batch)
                           .Add("shards", config_.shards)
                           .Add("total_samples", plan_.total_samples)
                           .Add("push_steps", config_.UsesServers() ? steps_->steps_per_push() : 0)
                           .Add("leased", context_.elastic)
                           .Add("group", environment_.group));
}

Status Run::TrainUntilEnd() {
  for (bool more = true; more && !Stopping();) {
    PACELINE_TRY(LeadIfDue());
    auto trained = TrainOneRound();
    // The others stopped first: they will not push what this step waits for.
    if (!trained.ok() && trained.status().code() == Code::kAborted && Stopping()) return {};
    PACELINE_ASSIGN(more, trained);
  }
  return {};
}

// False when there is none.
Result<bool> Run::TrainOneRound() {
  PACELINE_ASSIGN(const bool more, steps_->More());
  if (!more) return false;
  const Instant before = environment_.clock.Now();
  const job::PhaseTimes phases_before = steps_->phases();
  const std::uint64_t steps_before = steps_->steps(), samples_before = steps_->samples();
  PACELINE_ASSIGN(const StepOutcome outcome, steps_->Next());
  const std::chrono::nanoseconds took = environment_.clock.Now() - before;
  RecordStep(outcome, steps_before, took, steps_->phases().Since(phases_before));
  PACELINE_TRY(AfterStep(outcome, steps_before, samples_before));
  return true;
}

void Run::RecordStep(const StepOutcome& outcome, std::uint64_t steps_before,
                     std::chrono::nanoseconds took, const job::PhaseTimes& phases) {
  step_time_ += took;
  evaluation_.reset();
  if (outcome.applied && outcome.samples > 0) {
    recent_loss_ += (any_step_ ? kRecent : 1.0) * (outcome.loss - recent_loss_);
    any_step_ = true;
  }
  if (!log_.keeps_records()) return;
  log_.Record("step", JsonObject()
                          .Add("step", outcome.steps)
                          .Add("steps", outcome.steps - steps_before)
                          .Add("samples", steps_->samples())
                          .Add("loss", outcome.loss)
                          .Add("lr", outcome.learning_rate)
                          .Add("applied", outcome.applied)
                          .Add("seconds", ToSeconds(took))
                          .Add("phases_ms", PhaseMilliseconds(phases)));
  ShowProgress();
}

void Run::ShowProgress() {
  const auto steps = static_cast<double>(steps_->steps() - first_step_);
  const double seconds = std::max(ToSeconds(step_time_), 1e-9);
  const auto new_samples = static_cast<double>(steps_->samples() - first_samples_);
  log_.progress().Update(
      {.model = config_.model,
       .step = steps_->steps(),
       .total_steps = plan_.Steps(),
       .epoch = static_cast<double>(steps_->samples()) / static_cast<double>(plan_.dataset_size),
       .loss = recent_loss_,
       .accuracy = RunSummary::kNone,
       .samples_per_second = new_samples / seconds,
       .seconds_left = seconds / steps * static_cast<double>(plan_.Steps() - steps_->steps())});
}

Status Run::AfterStep(const StepOutcome& outcome, std::uint64_t steps_before,
                      std::uint64_t samples_before) {
  PACELINE_TRY(NoteSkippedStep(outcome));
  if (!leads_) return {};
  const std::uint64_t size = plan_.dataset_size;
  const bool epoch_ended = samples_before / size != steps_->samples() / size;
  const auto due = [&](std::uint64_t every) {
    return every == 0 ? epoch_ended : steps_before / every != outcome.steps / every;
  };
  // The end has an evaluation and a snapshot of its own.
  if (steps_->Done() || Stopping()) return {};
  if (due(config_.eval_every)) PACELINE_TRY(EvaluateNow());
  if (!due(config_.checkpoint_every)) return {};
  Status saved = SaveNow();
  if (!saved.ok() && config_.checkpoint_required) return saved;
  if (!saved.ok()) log_.Warn(fmt::format("{}; training goes on", saved.message()));
  return {};
}

Status Run::NoteSkippedStep(const StepOutcome& outcome) {
  if (outcome.applied) {
    skipped_in_row_ = 0;
    return {};
  }
  ++skipped_;
  ++skipped_in_row_;
  const std::uint64_t limit = config_.nan_policy == "stop" ? 1 : config_.nan_limit;
  if (skipped_in_row_ >= limit) {
    return Status::Error(Code::kNotFinite,
                         fmt::format("step {}: loss {} is not finite, {} step(s) in a row; the "
                                     "parameters are those before; try a smaller --lr",
                                     outcome.steps - 1, outcome.loss, skipped_in_row_));
  }
  log_.Warn(fmt::format("step {}: loss {} is not finite; step skipped ({} of {})",
                        outcome.steps - 1, outcome.loss, skipped_in_row_, limit));
  return {};
}

Status Run::EvaluateNow() {
  const job::PhaseScope scope(environment_.clock, steps_->phases(), job::Phase::kEvaluate);
  auto result = Evaluate(model_, context_.store,
                         {.trainer = context_.place.rank,
                          .min_version = steps_->VersionNow(),
                          .stop = [this] { return Stopping(); }});
  if (!result.ok() && result.status().code() == Code::kAborted && Stopping()) return {};
  if (!result.ok()) return result.status().Wrap("evaluating");
  if (result->samples == 0) return {};
  evaluation_ = *result;
  log_.Record("evaluate", JsonObject()
                              .Add("step", steps_->steps())
                              .Add("accuracy", OrNone(result->accuracy))
                              .Add("top4", OrNone(result->top4))
                              .Add("auc", OrNone(result->auc))
                              .Add("best_auc", OrNone(model_.best_auc))
                              .Add("pair_ratio", OrNone(result->pair_ratio))
                              .Add("similarity", OrNone(result->similarity))
                              .Add("samples", result->samples));
  RunSummary summary;
  AddEvaluation(summary);
  log_.Note(fmt::format("step {}: held out: {}", steps_->steps(), summary.HeldOutText()));
  return {};
}

Status Run::SaveNow() {
  if (!context_.save) {
    context_.store.SaveWithNextPush();
    return {};
  }
  if (saved_at_ == steps_->steps()) return {};
  const job::PhaseScope scope(environment_.clock, steps_->phases(), job::Phase::kCheckpoint);
  Status saved = context_.save();
  log_.Record("checkpoint", JsonObject()
                                .Add("step", steps_->steps())
                                .Add("ok", saved.ok())
                                .Add("message", saved.message()));
  if (saved.ok()) {
    saved_at_ = steps_->steps();
  } else {
    ++save_failures_;
  }
  return saved;
}

Status Run::Finish() {
  if (steps_->Done() && !Stopping()) PACELINE_TRY(EvaluateNow());
  PACELINE_ASSIGN(params_hash_, HashDense());
  const RunSummary summary = Summarize();
  log_.Record("end", JsonObject()
                         .Add("step", summary.steps)
                         .Add("params_hash", summary.params_hash)
                         .Add("interrupted", summary.interrupted));
  if (!log_.keeps_records()) return {};
  const Status written = job::WriteTextFile(log_.directory().ResultFile(), summary.Json() + "\n");
  if (!written.ok()) log_.Warn(written.message());
  return {};
}

Result<std::string> Run::HashDense() {
  std::vector<float> dense(context_.spec.DenseFloats());
  if (dense.empty()) return std::string();
  // Trainers that were asked to stop do not all stop at the same step: nobody waits for them.
  const std::uint64_t min_version = steps_->Done() ? steps_->VersionNow() : 0;
  ps::PullRequest request{.trainer = context_.place.rank,
                          .min_version = min_version,
                          .touch = ps::Touch::kPeek,
                          .rows = {},
                          .dense = dense};
  Status pulled = context_.store.Pull(request).status();
  if (pulled.code() == Code::kAborted && Stopping()) {
    request.min_version = 0;
    pulled = context_.store.Pull(request).status();
  }
  PACELINE_TRY(pulled);
  kernel::Hasher hasher;
  hasher.Update(std::as_bytes(std::span(dense)));
  return hasher.Hex();
}

void Run::AddEvaluation(RunSummary& summary) const {
  if (!evaluation_) return;
  summary.evaluated = true;
  summary.accuracy = OrNone(evaluation_->accuracy);
  if (evaluation_->top4) summary.metrics = {{"top4", *evaluation_->top4}};
  summary.auc = OrNone(evaluation_->auc);
  summary.best_auc = OrNone(model_.best_auc);
  summary.pair_ratio = OrNone(evaluation_->pair_ratio);
  summary.similarity = OrNone(evaluation_->similarity);
  summary.eval_samples = evaluation_->samples;
}

RunSummary Run::Summarize() {
  RunSummary summary;
  summary.model = config_.model;
  summary.strategy = config_.strategy;
  summary.mode = config_.strategy == "local" ? "" : config_.mode;
  summary.optimizer = config_.optimizer;
  summary.data = config_.data;
  summary.run = config_.run;
  summary.workers = config_.workers;
  summary.shards = config_.shards;
  summary.batch = config_.batch;
  summary.threads = config_.threads;
  summary.seed = config_.seed;
  summary.steps = steps_->steps();
  summary.samples = steps_->samples();
  summary.epochs = static_cast<double>(steps_->samples()) / static_cast<double>(plan_.dataset_size);
  summary.resumed_from_step = first_step_;
  summary.seconds = ToSeconds(step_time_);
  summary.wall_seconds = ToSeconds(environment_.clock.Now() - started_);
  const auto new_samples = static_cast<double>(steps_->samples() - first_samples_);
  summary.samples_per_second = summary.seconds > 0 ? new_samples / summary.seconds : 0;
  summary.final_loss = recent_loss_;
  AddEvaluation(summary);
  for (const sparse::TableSpec& table : model_.model->tables()) {
    summary.params += table.rows * table.dim;
  }
  summary.params += context_.spec.DenseFloats();
  summary.tensors = model_.model->tables().size() + model_.model->dense().size();
  summary.params_hash = params_hash_;
  summary.skipped_steps = skipped_;
  summary.bad_records = model_.bad_records;
  summary.checkpoint_failures = save_failures_;
  summary.max_rss_bytes = MaxRssBytes();
  summary.interrupted = !steps_->Done();
  summary.phases = steps_->phases();
  summary.group = environment_.group;
  return summary;
}

}  // namespace

Result<std::optional<RunSummary>> RunTrainer(const TrainConfig& config,
                                             const RunEnvironment& environment,
                                             const ModelWithData& model,
                                             const TrainerContext& context, RunLog& log) {
  Run run(config, environment, model, context, log);
  PACELINE_TRY(run.Open());
  return run.Train();
}

}  // namespace paceline::fused

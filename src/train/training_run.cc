#include "train/training_run.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "data/loader.h"

namespace paceline::train {

namespace {

// How fast the shown loss follows: about the last twenty steps.
constexpr double kRecent = 0.05;
constexpr std::size_t kEvalBatch = 100;

JsonObject PhaseMilliseconds(const job::PhaseTimes& phases) {
  JsonObject json;
  for (const job::Phase phase : {job::Phase::kData, job::Phase::kForward, job::Phase::kBackward,
                                 job::Phase::kReduce, job::Phase::kWait, job::Phase::kApply}) {
    json.Add(job::PhaseName(phase), std::round(ToSeconds(phases.Of(phase)) * 1e6) / 1e3);
  }
  return json;
}

std::function<Status()> MayCommit(job::ElasticGroup* elastic) {
  if (elastic == nullptr) return nullptr;
  return [elastic] { return elastic->agent().AwaitMayCommit(); };
}

}  // namespace

TrainingRun::TrainingRun(const job::TrainConfig& config, const RunEnvironment& environment)
    : config_(config),
      environment_(environment),
      directory_(config.run),
      recorder_(environment.clock),
      progress_(environment.clock, environment.progress),
      blame_(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(config.blame_every))) {}

Result<std::unique_ptr<TrainingRun>> TrainingRun::Open(const job::TrainConfig& config,
                                                       const RunEnvironment& environment) {
  std::unique_ptr<TrainingRun> run(new TrainingRun(config, environment));
  PACELINE_ASSIGN(run->data_, OpenData(config));
  if (environment.elastic != nullptr) {
    PACELINE_TRY(run->OpenTrainer());
    PACELINE_TRY(run->trainer_->WarmUp(*run->data_.held_out,
                                       static_cast<std::size_t>(config.batch)));
    environment.elastic->agent().SetReady();
    return run;
  }
  if (run->Leads()) PACELINE_TRY(run->OpenDirectory());
  PACELINE_TRY(run->OpenTrainer());
  if (environment.connect_servers) {
    PACELINE_TRY(run->OpenServers());
  } else if (config.resume) {
    PACELINE_TRY(run->Restore());
  }
  for (const std::string& note : run->data_.notes) run->Note(note);
  for (const std::string& warning : run->data_.warnings) run->Warn(warning);
  return run;
}

bool TrainingRun::Leads() const {
  if (environment_.connect_servers) return environment_.rank == 0;
  if (environment_.engine == nullptr) return environment_.elastic == nullptr;
  return environment_.engine->rank() == Rank(0);
}

Status TrainingRun::OpenDirectory() {
  const bool used = directory_.Used();
  // Else the launcher guards the directory, and a trainer that comes back goes on.
  const bool alone = environment_.elastic == nullptr && !environment_.connect_servers;
  PACELINE_TRY(directory_.Create());
  if (alone) {
    PACELINE_ASSIGN(lock_, disk::RunLock::Acquire(directory_.path(), environment_.clock));
  }
  if (alone && used && !config_.resume) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} holds a run already; continue it with --resume, or choose "
                                     "another --run",
                                     directory_.path()));
  }
  PACELINE_ASSIGN(const std::string id, directory_.ReadOrMakeId());
  PACELINE_TRY(job::WriteTextFile(directory_.ConfigFile(), environment_.config_text));
  PACELINE_ASSIGN(events_, job::EventLog::Open(directory_.EventFile(), environment_.clock));
  SetLogFile(directory_.LogFile());
  store_.emplace(
      environment_.file_system, directory_.CheckpointDirectory(),
      disk::CheckpointStoreOptions{.cluster_id = id, .keep = static_cast<int>(config_.keep)});
  return {};
}

Status TrainingRun::OpenTrainer() {
  const std::uint64_t size = data_.train->size();
  plan_ = {.seed = config_.seed,
           .dataset_size = size,
           .batch = static_cast<std::uint64_t>(config_.batch),
           .shards = static_cast<std::uint64_t>(config_.shards),
           .total_samples =
               config_.steps > 0 ? config_.steps * config_.GlobalBatch() : config_.epochs * size};
  PACELINE_TRY(plan_.Validate());
  PACELINE_ASSIGN(const auto kind, algo::ParseLearningRateKind(config_.lr_schedule));
  schedule_ = {.kind = kind,
               .base = config_.lr,
               .warmup_steps = config_.warmup_steps,
               .decay_every = config_.lr_decay_every,
               .gamma = config_.lr_gamma,
               .total_steps = plan_.Steps(),
               .floor = config_.lr_floor};
  PACELINE_ASSIGN(BuiltModel model, BuildModel(config_.model, config_.seed));
  PACELINE_ASSIGN(trainer_,
                  Trainer::Create(std::move(model),
                                  {.seed = config_.seed,
                                   .shards = plan_.shards,
                                   .optimizer = {.name = config_.optimizer,
                                                 .momentum = config_.momentum,
                                                 .weight_decay = config_.weight_decay},
                                   .clip_norm = config_.clip_norm,
                                   .gradient_fault = environment_.gradient_fault,
                                   .engine = environment_.engine,
                                   .elastic = environment_.elastic != nullptr,
                                   .rank = environment_.rank,
                                   .trainers = static_cast<std::uint64_t>(
                                       environment_.connect_servers ? config_.workers : 0),
                                   .may_commit = MayCommit(environment_.elastic),
                                   .bucket_bytes = config_.BucketBytes(),
                                   .timeout = config_.CollectiveTimeout()},
                                  environment_.clock));
  trainer_->phases().SetTrace(environment_.trace);
  trainer_->phases().SetObserver([this](job::Phase phase) {
    recorder_.Add(job::PhaseName(phase), position_.next_step.value());
    if (environment_.elastic == nullptr) return;
    environment_.elastic->agent().SetPhase(job::PhaseName(phase));
  });
  identity_ = {.config = config_.Identity(),
               .model = config_.model,
               .optimizer = config_.optimizer,
               .seed = config_.seed,
               .workers = static_cast<std::uint64_t>(config_.workers)};
  identity_.config["data"] = data_.train->Fingerprint();
  return {};
}

// The first worker knows where the run stands; the others need not see its files.
Status TrainingRun::Restore() {
  if (Leads()) PACELINE_TRY(RestoreFromDisk());
  if (environment_.engine != nullptr) {
    PACELINE_TRY(SharePosition(Rank(0), saved_at_.has_value()));
  }
  first_step_ = position_.next_step;
  first_sample_ = position_.samples;
  return {};
}

// What the root says about the state counts.
Status TrainingRun::SharePosition(Rank root, bool with_state) {
  std::array<std::uint64_t, 6> values{
      position_.next_step.value(), position_.samples,        position_.epoch,
      position_.skipped,           position_.skipped_in_row, with_state ? 1U : 0U};
  PACELINE_TRY(environment_.engine->Broadcast(std::as_writable_bytes(std::span(values)), root));
  if (values[5] != 0) PACELINE_TRY(trainer_->Synchronize(root));
  position_ = {Step(values[0]), values[1], values[2], values[3], values[4]};
  return {};
}

Status TrainingRun::RestoreFromDisk() {
  auto restored = RestoreCheckpoint(*store_, *trainer_, identity_);
  if (!restored.ok() && restored.status().code() == Code::kNotFound) {
    Note(fmt::format("no checkpoint in {} yet: starting at step 0", directory_.path()));
    return {};
  }
  if (!restored.ok()) return restored.status().Wrap("resuming " + directory_.path());
  for (const std::string& warning : restored->warnings) Warn(warning);
  position_ = restored->position;
  saved_at_ = position_.next_step;
  Note(fmt::format("resuming at step {}", position_.next_step.value()));
  return {};
}

Result<std::unique_ptr<data::BatchLoader>> TrainingRun::MakeLoader() {
  return data::BatchLoader::Create(
      *data_.train, plan_,
      {.first_step = position_.next_step,
       .first_shard = trainer_->first_shard(),
       .end_shard = trainer_->end_shard(),
       .depth = static_cast<int>(config_.prefetch)});
}

Result<job::RunSummary> TrainingRun::Run() {
  if (environment_.elastic != nullptr) return RunElastic();
  if (environment_.engine != nullptr) PACELINE_TRY(environment_.engine->Barrier());
  run_started_ = environment_.clock.Now();
  RecordStart();
  PACELINE_ASSIGN(const auto loader, MakeLoader());
  const Status trained = TrainUntilEnd(*loader);
  PACELINE_TRY(FinishTraining(trained));
  return Summarize();
}

// The final state is saved and recorded before anybody may go.
Status TrainingRun::FinishTraining(const Status& trained) {
  progress_.Finish();
  // Whatever ended the training, the state is good: bad steps never reached it.
  if (Leads() && (trained.ok() || trained.code() == Code::kNotFinite)) {
    const Status saved = SaveNow();
    if (!saved.ok()) return saved.Wrap("the final checkpoint");
  }
  PACELINE_TRY(trained);
  if (environment_.engine != nullptr) PACELINE_TRY(trainer_->VerifyReplicas());
  if (environment_.trace != nullptr) PACELINE_TRY(WriteTrace());
  if (!Leads()) return {};
  const job::RunSummary summary = Summarize();
  Record("end", JsonObject()
                    .Add("step", summary.steps)
                    .Add("params_hash", summary.params_hash)
                    .Add("interrupted", summary.interrupted));
  const Status written = job::WriteTextFile(directory_.ResultFile(), summary.Json() + "\n");
  if (!written.ok()) Warn(written.message());
  return {};
}

Status TrainingRun::TrainUntilEnd(data::BatchLoader& loader) {
  const Trainer::NextBatch next = [&] { return loader.Next(std::stop_token()); };
  blame_.Restart(environment_.clock.Now());
  link_watch_ = {};
  link_ = {};
  while (position_.next_step.value() < plan_.Steps() && !Stopping()) {
    if (LeaveIfAsked()) PACELINE_LOG(Info, "asked to leave the run");
    const Step step = position_.next_step;
    const double learning_rate = algo::LearningRateAt(schedule_, step.value());
    const Instant started = environment_.clock.Now();
    const job::PhaseTimes phases_before = trainer_->phases();
    const std::uint64_t samples_before = position_.samples;
    auto stepped = trainer_->RunStep({.step = step,
                                      .samples = SamplesOf(step),
                                      .learning_rate = learning_rate,
                                      .link = link_,
                                      .stop = ShouldStopAll(),
                                      .view_ends = ViewShouldEnd()},
                                     next);
    // The others stopped first: they will not push what this step waits for.
    if (remote_ && stepped.status().code() == Code::kAborted && Stopping()) break;
    PACELINE_ASSIGN(const StepOutcome outcome, std::move(stepped));
    agreed_to_stop_ = outcome.stop;
    const std::chrono::nanoseconds took = environment_.clock.Now() - started;
    if (environment_.trace != nullptr) TraceReductions();
    RecordStep(outcome, learning_rate, took, trainer_->phases().Since(phases_before));
    WatchGroup(outcome, took);
    PACELINE_TRY(AfterStep(outcome, samples_before));
    if (outcome.view_ends && !agreed_to_stop_) {
      view_ended_ = true;
      return {};
    }
  }
  const bool finished = position_.next_step.value() >= plan_.Steps();
  if (remote_ && finished) PACELINE_TRY(remote_->Finish(Leads()));
  const bool evaluates = Leads() || environment_.engine != nullptr;
  return finished && evaluates && !Stopping() && !evaluation_ ? EvaluateNow() : Status();
}

bool TrainingRun::EndsEpoch(std::uint64_t before, std::uint64_t after) const {
  return before / plan_.dataset_size != after / plan_.dataset_size;
}

void TrainingRun::RecordStep(const StepOutcome& outcome, double learning_rate,
                             std::chrono::nanoseconds took, const job::PhaseTimes& phases) {
  step_time_ += took;
  position_.next_step = position_.next_step.Next();
  position_.samples =
      remote_ ? PositionAt(position_.next_step) : position_.samples + outcome.samples;
  position_.epoch = plan_.EpochOf(position_.samples);
  evaluation_.reset();  // of older parameters

  // NaN, and null in the record, where nothing is predicted.
  const double accuracy = outcome.correct / outcome.predictions;
  if (outcome.applied) {
    const double weight = any_step_ ? kRecent : 1.0;
    recent_loss_ += weight * (outcome.loss - recent_loss_);
    recent_accuracy_ += weight * (accuracy - recent_accuracy_);
    any_step_ = true;
  }
  JsonObject record;
  record.Add("step", position_.next_step.value())
      .Add("samples", position_.samples)
      .Add("loss", outcome.loss)
      .Add("accuracy", accuracy)
      .Add("lr", learning_rate)
      .Add("gradient_norm", outcome.gradient_norm)
      .Add("applied", outcome.applied)
      .Add("seconds", ToSeconds(took))
      .Add("phases_ms", PhaseMilliseconds(phases));
  if (environment_.engine != nullptr) {
    record.AddRaw("busy_seconds", fmt::format("[{:.6f}]", fmt::join(outcome.busy_seconds, ", ")));
  }
  if (config_.reproducible) AddStateHash(record);
  if (environment_.elastic != nullptr) environment_.elastic->agent().Commit(position_.next_step);
  Record("step", record);
  PACELINE_VLOG(1, "step {} loss {} gradient norm {} in {} ms", position_.next_step.value(),
                outcome.loss, outcome.gradient_norm, 1e3 * ToSeconds(took));
  ShowProgress();
}

Status TrainingRun::AfterStep(const StepOutcome& outcome, std::uint64_t samples_before) {
  PACELINE_TRY(NoteSkippedStep(outcome));
  PACELINE_TRY(VerifyIfDue());
  const std::uint64_t done = position_.next_step.value();
  const bool epoch_ended = EndsEpoch(samples_before, position_.samples);
  const auto due = [&](std::uint64_t every) {
    return every == 0 ? epoch_ended : done % every == 0;
  };
  const bool evaluates = Leads() || environment_.engine != nullptr;  // groups share the work
  if (due(config_.eval_every) && evaluates && !Stopping()) PACELINE_TRY(EvaluateNow());
  if (!due(config_.checkpoint_every) || !Leads()) return {};
  const Status saved = SaveNow();
  if (!saved.ok() && config_.checkpoint_required) return saved;
  if (!saved.ok()) Warn(fmt::format("{}; training goes on", saved.message()));
  return {};
}

// Ctrl-C ends the whole run. SIGTERM to one worker of an elastic run only asks that one to leave.
bool TrainingRun::ShouldStopAll() const {
  const int signal = environment_.stop_signal();
  return environment_.elastic == nullptr ? signal != 0 : signal == SIGINT;
}

Status TrainingRun::VerifyIfDue() {
  const bool due = environment_.engine != nullptr && config_.verify_every > 0 &&
                   position_.next_step.value() % config_.verify_every == 0;
  return due ? trainer_->VerifyReplicas() : Status();
}

Status TrainingRun::NoteSkippedStep(const StepOutcome& outcome) {
  if (outcome.applied) {
    position_.skipped_in_row = 0;
    return {};
  }
  ++position_.skipped;
  ++position_.skipped_in_row;
  const std::uint64_t limit = config_.nan_policy == "stop" ? 1 : config_.nan_limit;
  const std::uint64_t step = position_.next_step.value() - 1;
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

Status TrainingRun::EvaluateNow() {
  const job::PhaseScope scope(environment_.clock, trainer_->phases(), job::Phase::kEvaluate);
  auto result = Evaluate(trainer_->model(), *data_.held_out,
                         {kEvalBatch, [&] { return Stopping(); }, environment_.engine});
  if (!result.ok() && result.status().code() == Code::kAborted) return {};
  if (!result.ok()) return result.status().Wrap("evaluating");
  evaluation_ = *result;
  JsonObject record;
  record.Add("step", position_.next_step.value()).Add("samples", result->samples);
  for (const Metric& metric : result->metrics) record.Add(metric.name, metric.value);
  Record("evaluate", record);
  job::RunSummary summary;
  SummarizeEvaluation(summary);
  Note(fmt::format("step {}: held-out {}", position_.next_step.value(), summary.HeldOutText()));
  return {};
}

Status TrainingRun::SaveNow() {
  if (saved_at_ == position_.next_step || remote_) return {};  // servers keep what they have
  const job::PhaseScope scope(environment_.clock, trainer_->phases(), job::Phase::kCheckpoint);
  const Status saved = SaveCheckpoint(*store_, *trainer_, position_, identity_);
  Record("checkpoint", JsonObject()
                           .Add("step", position_.next_step.value())
                           .Add("ok", saved.ok())
                           .Add("message", saved.message()));
  PACELINE_LOG(Info, "checkpoint at step {}: {}", position_.next_step.value(), saved.ToString());
  if (saved.ok()) {
    saved_at_ = position_.next_step;
  } else {
    ++save_failures_;
  }
  return saved;
}

}  // namespace paceline::train

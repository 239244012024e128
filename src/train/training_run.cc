#include "train/training_run.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "data/loader.h"
#include "data/mix_up.h"
#include "job/recipe.h"
#include "train/initial_values.h"

namespace paceline::train {

namespace {

// How fast the shown loss follows: about the last twenty steps.
constexpr double kRecent = 0.05;

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
  PACELINE_ASSIGN(run->data_,
                  environment.open_data ? environment.open_data(config) : OpenData(config));
  if (config.mixup > 0) {
    run->data_.train = std::make_unique<data::MixUp>(std::move(run->data_.train), config.mixup);
  }
  if (environment.elastic != nullptr) {
    PACELINE_TRY(run->OpenTrainer());
    PACELINE_TRY(
        run->trainer_->WarmUp(*run->data_.held_out, static_cast<std::size_t>(config.batch)));
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
  if (!run->Lent()) run->TellAboutData();
  return run;
}

void TrainingRun::TellAboutData() {
  for (const std::string& note : data_.notes) Note(note);
  for (const std::string& warning : data_.warnings) Warn(warning);
}

bool TrainingRun::Leads() const {
  if (Lent()) return leads_;
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
  if (!config_.resume) PACELINE_TRY(KeepConfig());
  PACELINE_ASSIGN(events_, job::EventLog::Open(directory_.EventFile(), environment_.clock));
  SetLogFile(directory_.LogFile());
  store_.emplace(
      environment_.file_system, directory_.CheckpointDirectory(),
      disk::CheckpointStoreOptions{.cluster_id = id, .keep = static_cast<int>(config_.keep)});
  return {};
}

// Of a run that goes on, only when it is known to be the same run: the configuration of another one
// would be what the next attempt begins with.
Status TrainingRun::KeepConfig() {
  return job::WriteTextFile(directory_.ConfigFile(), environment_.config_text);
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
  PACELINE_ASSIGN(schedule_, job::ScheduleOf(config_, plan_));
  PACELINE_ASSIGN(BuiltModel model, environment_.build_model ? environment_.build_model(config_)
                                                             : BuildModel(config_));
  if (config_.mixup > 0 && !model.objective->TakesMixedLabels()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("--mixup: the objective of {} does not take mixed labels; "
                                     "train::Classification does",
                                     config_.model));
  }
  PACELINE_ASSIGN(const OptimizerOptions optimizer, OptimizerOf(config_));
  PACELINE_ASSIGN(const algo::LossScale loss_scale, algo::ParseLossScale(config_.loss_scale));
  TrainerOptions options{.seed = config_.seed,
                         .shards = plan_.shards,
                         .optimizer = optimizer,
                         .clip_norm = config_.clip_norm,
                         .loss_scale = loss_scale,
                         .ema = config_.ema,
                         .gradient_fault = environment_.gradient_fault,
                         .engine = environment_.engine,
                         .elastic = environment_.elastic != nullptr,
                         .may_commit = MayCommit(environment_.elastic),
                         .bucket_bytes = config_.BucketBytes(),
                         .timeout = config_.CollectiveTimeout()};
  if (environment_.connect_servers) PlaceAmongTrainers(options);
  PACELINE_ASSIGN(trainer_, Trainer::Create(std::move(model), options, environment_.clock));
  if (!config_.init_from.empty()) {
    PACELINE_ASSIGN(const std::vector<std::string> unused,
                    TakeInitialValues(environment_.file_system, config_.init_from, *trainer_));
    if (!unused.empty()) {
      Warn(fmt::format("{}: not used: {}", config_.init_from, fmt::join(unused, ", ")));
    }
  }
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
  const algo::BestSoFar& best = position_.best;
  std::array<std::uint64_t, 11> values{position_.next_step.value(),
                                       position_.samples,
                                       position_.epoch,
                                       position_.skipped,
                                       position_.skipped_in_row,
                                       with_state ? 1U : 0U,
                                       best.known ? 1U : 0U,
                                       std::bit_cast<std::uint64_t>(best.value),
                                       best.step.value(),
                                       best.judged.value(),
                                       best.since};
  PACELINE_TRY(environment_.engine->Broadcast(std::as_writable_bytes(std::span(values)), root));
  if (values[5] != 0) PACELINE_TRY(trainer_->Synchronize(root));
  position_ = {Step(values[0]),
               values[1],
               values[2],
               values[3],
               values[4],
               {.known = values[6] != 0,
                .value = std::bit_cast<double>(values[7]),
                .step = Step(values[8]),
                .judged = Step(values[9]),
                .since = values[10]}};
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
  saved_as_ = restored->generation;
  Note(fmt::format("resuming at step {}", position_.next_step.value()));
  return {};
}

data::LoaderOptions TrainingRun::LoaderOf(Step first_step) const {
  return {.first_step = first_step,
          .first_shard = trainer_->first_shard(),
          .end_shard = trainer_->end_shard(),
          .threads = static_cast<int>(config_.data_threads),
          // One step is being used while each thread fills another.
          .depth = static_cast<int>(std::max(config_.prefetch, config_.data_threads + 1))};
}

Result<job::RunSummary> TrainingRun::Run() {
  if (environment_.elastic != nullptr) return RunElastic();
  if (Lent()) return RunLeases();
  if (environment_.engine != nullptr) PACELINE_TRY(environment_.engine->Barrier());
  run_started_ = environment_.clock.Now();
  PACELINE_TRY(RecordStart());
  PACELINE_ASSIGN(const auto loader,
                  data::BatchLoader::Create(*data_.train, plan_, LoaderOf(position_.next_step)));
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
  PACELINE_TRY(AwaitParameters());
  if (environment_.engine != nullptr) PACELINE_TRY(trainer_->VerifyReplicas());
  if (environment_.trace != nullptr) PACELINE_TRY(WriteTrace());
  if (!Leads()) return {};
  const job::RunSummary summary = Summarize();
  Record("end", JsonObject()
                    .Add("step", summary.steps)
                    .Add("params_hash", summary.params_hash)
                    .Add("interrupted", summary.interrupted)
                    .Add("stopped_early", summary.stopped_early));
  const Status written = job::WriteTextFile(directory_.ResultFile(), summary.Json() + "\n");
  if (!written.ok()) Warn(written.message());
  return {};
}

Status TrainingRun::TrainUntilEnd(data::BatchLoader& loader) {
  blame_.Restart(environment_.clock.Now());
  link_watch_ = {};
  link_ = {};
  PACELINE_TRY(EvaluateWhatWasMissed());
  while (position_.next_step.value() < plan_.Steps() && !Stopping() && !StopsEarlyHere()) {
    if (LeaveIfAsked()) PACELINE_LOG(Info, "asked to leave the run");
    const Step step = position_.next_step;
    PACELINE_ASSIGN(const bool done,
                    TrainStep({.step = step,
                               .samples = SamplesOf(step),
                               .learning_rate = algo::LearningRateAt(schedule_, step.value())},
                              loader));
    if (!done) break;
    if (view_ended_) return {};
  }
  const bool finished = position_.next_step.value() >= plan_.Steps();
  if (remote_ && finished) PACELINE_TRY(remote_->Finish(Leads()));
  return finished && Evaluates() && !Stopping() && !evaluation_ ? EvaluateNow() : Status();
}

Result<bool> TrainingRun::TrainStep(Trainer::StepInput input, data::BatchLoader& loader) {
  const Instant started = environment_.clock.Now();
  const job::PhaseTimes phases_before = trainer_->phases();
  const RunPosition before = position_;
  input.link = link_;
  input.stop = ShouldStopAll();
  input.view_ends = ViewShouldEnd();
  auto stepped = trainer_->RunStep(input, [&] { return loader.Next(std::stop_token()); });
  // The others stopped first: they will not push what this step waits for.
  if (remote_ && stepped.status().code() == Code::kAborted && Stopping()) return false;
  PACELINE_ASSIGN(const StepOutcome outcome, std::move(stepped));
  agreed_to_stop_ = outcome.stop;
  const std::chrono::nanoseconds took = environment_.clock.Now() - started;
  if (environment_.trace != nullptr) TraceReductions();
  Advance(outcome);
  if (config_.reproducible) PACELINE_TRY(AwaitParameters());
  RecordStep(outcome, before, input.learning_rate, took, trainer_->phases().Since(phases_before));
  WatchGroup(outcome, took);
  PACELINE_TRY(AfterStep(outcome, before));
  view_ended_ = outcome.view_ends && !agreed_to_stop_;
  return true;
}

bool TrainingRun::Due(std::uint64_t every, const RunPosition& before) const {
  if (every != 0) return before.next_step.value() / every != position_.next_step.value() / every;
  return before.samples / plan_.dataset_size != position_.samples / plan_.dataset_size;
}

void TrainingRun::Advance(const StepOutcome& outcome) {
  if (walk_) {
    walk_->AfterPush(remote_->pushes());
    position_.next_step = Step(walk_->steps());
    position_.samples = walk_->samples();
  } else {
    position_.next_step = position_.next_step.Next();
    position_.samples = remote_ ? share_.SamplesAfter(position_.next_step.value())
                                : position_.samples + outcome.samples;
  }
  position_.epoch = plan_.EpochOf(position_.samples);
  evaluation_.reset();  // of older parameters
}

void TrainingRun::RecordStep(const StepOutcome& outcome, const RunPosition& before,
                             double learning_rate, std::chrono::nanoseconds took,
                             const job::PhaseTimes& phases) {
  step_time_ += took;
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
  if (walk_) record.Add("steps", position_.next_step.value() - before.next_step.value());
  if (config_.loss_scale != "1") record.Add("loss_scale", outcome.loss_scale);
  if (config_.reproducible) AddStateHash(record);
  if (environment_.elastic != nullptr) environment_.elastic->agent().Commit(position_.next_step);
  Record("step", record);
  PACELINE_VLOG(1, "step {} loss {} gradient norm {} in {} ms", position_.next_step.value(),
                outcome.loss, outcome.gradient_norm, 1e3 * ToSeconds(took));
  ShowProgress();
}

Status TrainingRun::AfterStep(const StepOutcome& outcome, const RunPosition& before) {
  PACELINE_TRY(NoteSkippedStep(outcome));
  PACELINE_TRY(VerifyIfDue());
  if (Due(config_.eval_every, before) && Evaluates() && !Stopping()) {
    PACELINE_TRY(EvaluateNow());
  }
  if (!Due(config_.checkpoint_every, before) || !Leads()) return {};
  const Status saved = SaveNow();
  return saved.ok() ? saved : TolerateFailedSave(saved);
}

// Ctrl-C ends the whole run. SIGTERM to one worker of an elastic run only asks that one to leave.
bool TrainingRun::ShouldStopAll() const {
  const int signal = environment_.stop_signal();
  if (remote_ && GivesUp()) return true;
  return environment_.elastic == nullptr ? signal != 0 : signal == SIGINT;
}

Status TrainingRun::VerifyIfDue() {
  const bool due = environment_.engine != nullptr && config_.verify_every > 0 &&
                   position_.next_step.value() % config_.verify_every == 0;
  return due ? trainer_->VerifyReplicas() : Status();
}

}  // namespace paceline::train

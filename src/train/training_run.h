#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "algo/batch_plan.h"
#include "algo/learning_rate.h"
#include "algo/trainer_share.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "base/status.h"
#include "collective/engine.h"
#include "data/loader.h"
#include "disk/checkpoint.h"
#include "disk/file_system.h"
#include "disk/run_lock.h"
#include "job/blame.h"
#include "job/elastic_group.h"
#include "job/event_log.h"
#include "job/flight_recorder.h"
#include "job/lease_taker.h"
#include "job/lease_walk.h"
#include "job/progress.h"
#include "job/run_dir.h"
#include "job/run_summary.h"
#include "job/straggler.h"
#include "job/trace.h"
#include "job/train_config.h"
#include "ps/store.h"
#include "train/checkpointing.h"
#include "train/data_source.h"
#include "train/evaluation.h"
#include "train/remote_parameters.h"
#include "train/trainer.h"

namespace paceline::train {

// What a run needs from the process around it.
struct RunEnvironment {
  const Clock& clock;
  disk::FileSystem& file_system;     // for checkpoints
  std::function<int()> stop_signal;  // 0, or the signal that asks to stop
  job::ProgressStyle progress = job::ProgressStyle::kOff;
  std::string config_text;               // kept as the run's config.toml
  GradientFault gradient_fault;          // for tests
  collective::Engine* engine = nullptr;  // the group; null: a worker alone
  // What is trained and what on; empty: the catalogue's model, and what --data names.
  std::function<Result<BuiltModel>(const job::TrainConfig&)> build_model;
  std::function<Result<DataSource>(const job::TrainConfig&)> open_data;
  job::ElasticGroup* elastic = nullptr;  // instead of `engine`: groups that come and go
  // Instead of both: parameters live on servers, and this is trainer `rank` of config.workers.
  std::function<Result<std::unique_ptr<ps::Store>>(const ps::JobSpec&)> connect_servers;
  std::uint64_t rank = 0;
  // Where trainers of servers come and go: joins with what all must agree on and the samples of the
  // run. Null when the run is complete but for its last evaluation.
  std::function<Result<std::unique_ptr<job::LeaseTaker>>(const std::string& fingerprint,
                                                         std::uint64_t samples)>
      join_lender;
  std::string group;  // what the group is, for people
  struct Cut {
    std::uint64_t step = 0;
    std::chrono::milliseconds duration{};
  };
  std::optional<Cut> cut;  // for tests: from this step on, no network for a while
  job::Trace* trace = nullptr;
};

// One worker's part of a training run, from start (or from its newest checkpoint) to the end or to
// a stop signal. The first worker keeps the records: it owns the run directory's lock for its
// lifetime, restores and saves; the others take the state from it. Thread-compatible.
class TrainingRun {
 public:
  // `config` is resolved. Opens data, directory and model, and restores when asked to.
  static Result<std::unique_ptr<TrainingRun>> Open(const job::TrainConfig& config,
                                                   const RunEnvironment& environment);

  // Trains. kNotFinite after too many bad steps (the last good state is saved), kDisk when a
  // required checkpoint or the final one cannot be written.
  Result<job::RunSummary> Run();

  // True when this worker keeps the records: of an elastic run, in its last view.
  bool Leads() const;

 private:
  TrainingRun(const job::TrainConfig& config, const RunEnvironment& environment);

  Status OpenDirectory();
  Status KeepConfig();
  Status OpenTrainer();
  void TellAboutData();
  Status OpenServers();
  void PlaceAmongTrainers(TrainerOptions& options) const;
  Status AwaitParameters();
  std::uint64_t SamplesOf(Step step) const;
  Status Restore();
  Status RestoreFromDisk();
  Status SharePosition(Rank root, bool with_state);
  data::LoaderOptions LoaderOf(Step first_step) const;
  Status FinishTraining(const Status& trained);

  // Of an elastic run: training_run_elastic.cc.
  Result<job::RunSummary> RunElastic();
  Status WorkInView(const wire::Assignment& view);
  Status TakeState(const wire::Assignment& view);
  Status RecordView(const wire::Assignment& view, bool from_disk);
  Result<job::RunSummary> Go(const wire::Release& release);
  void DumpFlight(const Status& why);
  bool LeaveIfAsked();

  // Of a run with servers whose samples are lent: training_run_leases.cc.
  bool Lent() const { return environment_.join_lender != nullptr; }
  Status OpenLeases(const std::string& fingerprint);
  Result<job::RunSummary> RunLeases();
  Status TrainLeases();
  Status TrainLease(const algo::TrainerShare& share);
  Status LeadIfDue();

  Status WriteTrace();
  Status TrainUntilEnd(data::BatchLoader& loader);
  // False when a signal ended the step: there is no outcome.
  Result<bool> TrainStep(Trainer::StepInput input, data::BatchLoader& loader);
  Status AfterStep(const StepOutcome& outcome, const RunPosition& before);
  void Advance(const StepOutcome& outcome);
  void RecordStep(const StepOutcome& outcome, const RunPosition& before, double learning_rate,
                  std::chrono::nanoseconds took, const job::PhaseTimes& phases);
  Status NoteSkippedStep(const StepOutcome& outcome);
  Status EvaluateNow();
  Status EvaluateWhatWasMissed();
  // Evaluations have not improved for as long as the user is willing to wait.
  bool GivesUp() const;
  // All workers of a group know the same evaluations; of trainers with servers only the first
  // evaluates, and asks the others to stop with it after a step.
  bool StopsEarlyHere() const { return GivesUp() && !remote_; }
  Status KeepBest();
  Status TolerateFailedSave(const Status& failed);
  Status SaveNow();
  void Warn(const std::string& text);
  void Record(const char* type, const JsonObject& fields);
  Status RecordStart();
  void AddStateHash(JsonObject& record) const;
  bool ShouldStopAll() const;
  bool ViewShouldEnd() const;
  void Note(const std::string& text);
  void ShowProgress();
  // After what happened since `before`: every so many steps, or 0: at the end of each epoch.
  bool Due(std::uint64_t every, const RunPosition& before) const;
  bool Evaluates() const { return Leads() || environment_.engine != nullptr; }  // groups share it
  // A group stops after a step that all agree on; a worker alone stops at once.
  bool Stopping() const {
    const bool alone = environment_.engine == nullptr && environment_.elastic == nullptr &&
                       !(remote_ && config_.mode == "sync");
    return alone ? environment_.stop_signal() != 0 : agreed_to_stop_;
  }
  Status VerifyIfDue();
  void WatchGroup(const StepOutcome& outcome, std::chrono::nanoseconds took);
  void TraceReductions();
  job::RunSummary Summarize() const;
  void SummarizeEvaluation(job::RunSummary& summary) const;

  job::TrainConfig config_;
  RunEnvironment environment_;
  job::RunDirectory directory_;
  job::FlightRecorder recorder_;
  job::Progress progress_;
  DataSource data_;
  algo::BatchPlan plan_;
  algo::LearningRateSchedule schedule_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<ps::Store> parameters_;  // with servers
  std::optional<RemoteParameters> remote_;
  algo::TrainerShare share_;                 // of remote_
  std::unique_ptr<job::LeaseTaker> leases_;  // where samples are lent; null: all are done
  std::optional<job::LeaseWalk> walk_;       // likewise
  bool leads_ = false;                       // likewise: this trainer keeps the records
  std::optional<disk::RunLock> lock_;
  std::optional<disk::CheckpointStore> store_;
  std::optional<job::EventLog> events_;
  RunIdentity identity_;
  RunPosition position_;

  Step first_step_;  // of this process
  std::uint64_t first_sample_ = 0;
  std::optional<Step> saved_at_;  // the newest checkpoint holds this position,
  Generation saved_as_;           // under this number
  std::uint64_t save_failures_ = 0;
  bool agreed_to_stop_ = false;
  bool view_ended_ = false;  // by agreement, at the end of a step
  bool asked_to_leave_ = false;
  bool started_ = false;  // an elastic run: was part of a view
  Generation generation_;
  job::StragglerReport stragglers_;
  job::BlameReport blame_;
  job::LinkWatch link_watch_;
  job::BusyLink link_;  // as of the last look
  Instant link_seen_{};
  double recent_loss_ = 0, recent_accuracy_ = 0;  // exponential averages
  bool any_step_ = false;
  std::optional<Evaluation> evaluation_;
  Instant run_started_{};
  std::chrono::nanoseconds step_time_{};
};

}  // namespace paceline::train

// A trainer whose parameters live on servers.
#include "job/server_access.h"
#include "train/training_run.h"

namespace paceline::train {

namespace {

RemoteMode ModeOf(const std::string& name) {
  if (name == "sync") return RemoteMode::kSync;
  if (name == "half-async") return RemoteMode::kHalfAsync;
  return name == "geo" ? RemoteMode::kGeo : RemoteMode::kAsync;  // ssp: with a bound
}

std::uint64_t StepsPerRound(const job::TrainConfig& config) {
  if (config.mode == "half-async") return config.merge;
  return config.mode == "geo" ? config.geo_steps : 1;
}

}  // namespace

// Whoever computes a lent batch computes all of it.
void TrainingRun::PlaceAmongTrainers(TrainerOptions& options) const {
  options.shards = Lent() ? 1 : plan_.shards;
  options.rank = Lent() ? 0 : environment_.rank;
  options.trainers = Lent() ? 1 : static_cast<std::uint64_t>(config_.workers);
}

// Where the run stands is known to the servers.
Status TrainingRun::OpenServers() {
  PACELINE_ASSIGN(const OptimizerOptions optimizer, OptimizerOf(config_));
  const auto trainers = static_cast<std::uint64_t>(config_.workers);
  share_ = {.plan = plan_,
            .rank = environment_.rank,
            .world = trainers,
            .steps_per_round = StepsPerRound(config_),
            .lease = environment_.rank};
  RemoteOptions options{.mode = ModeOf(config_.mode),
                        .trainers = Lent() ? 0 : trainers,
                        .delay_compensation = config_.delay_compensation,
                        .fingerprint = job::ServerFingerprint(config_, data_.train->Fingerprint()),
                        .optimizer = optimizer};
  if (config_.mode == "ssp") options.staleness = config_.staleness;
  PACELINE_ASSIGN(parameters_, environment_.connect_servers(RemoteParameters::MakeJob(
                                   trainer_->params(), trainer_->buffers(), options)));
  remote_.emplace(*parameters_, trainer_->params(), trainer_->buffers(), options,
                  environment_.clock);
  PACELINE_TRY(remote_->Initialise());
  trainer_->Use(*remote_);
  if (Lent()) {
    PACELINE_TRY(OpenLeases(options.fingerprint));
  } else {
    PACELINE_ASSIGN(position_.next_step, remote_->Begin(share_, trainers));
    position_.samples = share_.SamplesAfter(position_.next_step.value());
  }
  position_.epoch = plan_.EpochOf(position_.samples);
  first_step_ = position_.next_step;
  first_sample_ = position_.samples;
  return {};
}

// Before anybody but the trainer uses the parameters. A stop that called them off is no error.
Status TrainingRun::AwaitParameters() {
  if (!remote_) return {};
  const Status arrived = remote_->Await();
  return arrived.code() == Code::kAborted && Stopping() ? Status() : arrived;
}

// What a gradient is the mean of: the whole step, or this trainer's part where steps are not
// common.
std::uint64_t TrainingRun::SamplesOf(Step step) const {
  if (!remote_ || config_.mode == "sync") return plan_.StepSamples(step);
  std::uint64_t samples = 0;
  for (const algo::PositionRange& range : share_.RangesOf(step.value())) samples += range.count;
  return samples;
}

}  // namespace paceline::train

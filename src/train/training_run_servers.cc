// A trainer whose parameters live on servers.
#include <algorithm>

#include <fmt/format.h>

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

// Where the run stands is known to the servers.
Status TrainingRun::OpenServers() {
  PACELINE_ASSIGN(const OptimizerOptions optimizer, OptimizerOf(config_));
  RemoteOptions options{.mode = ModeOf(config_.mode),
                        .rank = environment_.rank,
                        .trainers = static_cast<std::uint64_t>(config_.workers),
                        .steps_per_round = StepsPerRound(config_),
                        .total_steps = plan_.Steps(),
                        .delay_compensation = config_.delay_compensation,
                        .fingerprint = fmt::format("{} batch={} seed={} steps={}", config_.model,
                                                   config_.batch, config_.seed, plan_.Steps()),
                        .optimizer = optimizer};
  if (config_.mode == "ssp") options.staleness = config_.staleness;
  PACELINE_ASSIGN(parameters_, environment_.connect_servers(RemoteParameters::MakeJob(
                                   trainer_->params(), trainer_->buffers(), options)));
  remote_.emplace(*parameters_, trainer_->params(), trainer_->buffers(), options);
  PACELINE_ASSIGN(position_.next_step, remote_->Start());
  trainer_->Use(*remote_);
  position_.samples = PositionAt(position_.next_step);
  position_.epoch = plan_.EpochOf(position_.samples);
  first_step_ = position_.next_step;
  first_sample_ = position_.samples;
  return {};
}

// Samples of the run before this step.
std::uint64_t TrainingRun::PositionAt(Step step) const {
  return std::min(step.value() * plan_.GlobalBatch(), plan_.total_samples);
}

// What a gradient is the mean of: the whole step, or this trainer's part where steps are not
// common.
std::uint64_t TrainingRun::SamplesOf(Step step) const {
  if (!remote_ || config_.mode == "sync") return plan_.StepSamples(step);
  std::uint64_t samples = 0;
  for (ShardId shard = trainer_->first_shard(); shard < trainer_->end_shard();
       shard = shard.Next()) {
    samples += plan_.ShardRange(step, shard).count;
  }
  return samples;
}

}  // namespace paceline::train

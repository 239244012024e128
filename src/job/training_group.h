#pragma once

#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "job/elastic_group.h"
#include "job/group.h"
#include "job/launch_environment.h"
#include "job/train_config.h"
#include "model/catalog.h"

namespace paceline::job {

// Joins the workers that train `config` together, shards spread evenly. The secret, and whether
// somebody else runs the rendezvous (PACELINE_COORDINATOR_RUNS), come from the environment.
// kMismatch when the workers do not agree on what they are about to train; else as Group::Join.
Result<std::unique_ptr<Group>> JoinTrainingGroup(const TrainConfig& config,
                                                 const LaunchEnvironment& launch,
                                                 const model::ModelCard& card,
                                                 const GetEnv& getenv);

// Joins the elastic run of `config` at the launch environment's coordinator.
Result<std::unique_ptr<ElasticGroup>> JoinElasticGroup(const TrainConfig& config,
                                                       const LaunchEnvironment& launch,
                                                       const model::ModelCard& card,
                                                       const Clock& clock, const GetEnv& getenv);

}  // namespace paceline::job

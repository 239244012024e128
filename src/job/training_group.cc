#include "job/training_group.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/fingerprint.h"

namespace paceline::job {

namespace {

// What must be equal on all workers for the training to make sense.
std::string Fingerprint(const TrainConfig& config) {
  std::map<std::string, std::string> fields = config.Identity();
  fields["version"] = PACELINE_VERSION;
  fields["engine"] = config.engine;
  fields["steps"] = std::to_string(config.steps);
  fields["epochs"] = std::to_string(config.epochs);
  fields["bucket-kb"] = std::to_string(config.bucket_kb);
  fields["threads"] = std::to_string(config.threads);
  return MakeFingerprint(fields);
}

// Room for something laid out like the parameters, with the padding between tensors.
std::size_t ParameterBytes(const model::ModelCard& card) {
  constexpr std::size_t kSlack = std::size_t{4} << 20;
  return static_cast<std::size_t>(card.ParameterCount()) * sizeof(float) * 5 / 4 + kSlack;
}

// Room for the gradients in shared memory: the parameters once for each part that a worker brings.
std::size_t ArenaBytes(const model::ModelCard& card, const algo::ShardLayout& layout) {
  std::size_t parts = 1;
  for (std::uint64_t rank = 0; rank < layout.world(); ++rank) {
    parts = std::max(parts, layout.NodesOf(Rank(rank)).size());
  }
  return parts * ParameterBytes(card);
}

// Room for the parameters and what an optimiser keeps of each, at most two numbers.
std::size_t CommonBytes(const model::ModelCard& card) { return 3 * ParameterBytes(card); }

}  // namespace

Result<std::unique_ptr<Group>> JoinTrainingGroup(const TrainConfig& config,
                                                 const LaunchEnvironment& launch,
                                                 const model::ModelCard& card,
                                                 const GetEnv& getenv) {
  PACELINE_ASSIGN(const auto secret, ReadSecret(getenv));
  const auto layout = algo::ShardLayout::Even(static_cast<std::uint64_t>(config.shards),
                                              static_cast<std::uint64_t>(config.workers));
  return Group::Join({.launch = launch,
                      .coordinator_runs = getenv("PACELINE_COORDINATOR_RUNS") != nullptr,
                      .secret = secret,
                      .bind = config.bind,
                      .engine = config.engine,
                      .layout = layout,
                      .shared_memory = config.shared_memory != "off",
                      .arena_bytes = ArenaBytes(card, layout),
                      .common_bytes = CommonBytes(card),
                      .timeout = config.CollectiveTimeout(),
                      .fingerprint = Fingerprint(config)});
}

Result<std::unique_ptr<ElasticGroup>> JoinElasticGroup(const TrainConfig& config,
                                                       const LaunchEnvironment& launch,
                                                       const model::ModelCard& card,
                                                       const Clock& clock, const GetEnv& getenv) {
  PACELINE_ASSIGN(const auto secret, ReadSecret(getenv));
  const auto shards = static_cast<std::uint64_t>(config.shards);
  return ElasticGroup::Join(
      {.coordinator = launch.coordinator,
       .shards = shards,
       .arena_bytes = [&card](const algo::ShardLayout& layout) { return ArenaBytes(card, layout); },
       .group = {.secret = secret,
                 .bind = config.bind,
                 .engine = config.engine,
                 .shared_memory = config.shared_memory != "off",
                 .timeout = config.CollectiveTimeout(),
                 .fingerprint = Fingerprint(config)},
       .patience =
           std::chrono::milliseconds(static_cast<std::int64_t>(config.elastic_timeout * 1000))},
      clock);
}

}  // namespace paceline::job

#include "fused/job_description.h"

#include <utility>

#include <fmt/format.h>

#include "algo/decay_rule.h"
#include "job/server_access.h"
#include "job/table_rules.h"

namespace paceline::fused {

namespace {

// What the other optimisers do not look at.
void SetFtrl(const job::TrainConfig& config, ps::RowOptimizerOptions& options) {
  options.ftrl_l1 = static_cast<float>(config.ftrl_l1);
  options.ftrl_l2 = static_cast<float>(config.weight_decay);
}

Result<ps::RowOptimizerOptions> OptimizerOf(const job::TrainConfig& config) {
  ps::RowOptimizerOptions options;
  const bool momentum = config.optimizer == "sgd" && config.momentum > 0;
  PACELINE_ASSIGN(options.kind, ps::ParseRowOptimizer(momentum ? "momentum" : config.optimizer));
  options.weight_decay = static_cast<float>(config.weight_decay);
  options.momentum = static_cast<float>(config.momentum);
  if (options.kind == ps::RowOptimizerKind::kAdam || options.kind == ps::RowOptimizerKind::kAdamW) {
    options.beta1 = static_cast<float>(config.beta1);
    options.beta2 = static_cast<float>(config.beta2);
  }
  if (config.optimizer != "sgd") options.epsilon = static_cast<float>(config.epsilon);
  SetFtrl(config, options);
  return options;
}

Result<ps::RowOptimizerOptions> OptimizerOf(const job::TrainConfig& config,
                                            const job::TableRules& rules) {
  if (rules.optimizer.empty() || rules.optimizer == config.optimizer) return OptimizerOf(config);
  ps::RowOptimizerOptions usual;
  PACELINE_ASSIGN(usual.kind, ps::ParseRowOptimizer(rules.optimizer));
  usual.weight_decay = static_cast<float>(config.weight_decay);
  if (config.momentum > 0) usual.momentum = static_cast<float>(config.momentum);
  SetFtrl(config, usual);
  return usual;
}

void Apply(const job::TableRules& rules, ps::JobTable& table) {
  ps::AdmissionOptions& admission = table.options.admission;
  if (rules.admit_count > 1) {
    admission.rule = ps::AdmissionRule::kAfterTouches;
    admission.touches = rules.admit_count;
  } else if (rules.admit_probability < 1) {
    admission.rule = ps::AdmissionRule::kByChance;
    admission.probability = rules.admit_probability;
  }
  table.options.evict_after = rules.evict_after;
  table.learning_rate_scale *= static_cast<float>(rules.lr_scale);
}

Result<ps::JobTable> TableOf(const job::TrainConfig& config, const sparse::TableSpec& spec) {
  PACELINE_ASSIGN(const job::TableRules rules, job::RulesOfTable(config, spec.name));
  PACELINE_ASSIGN(const algo::DecayRule decay, algo::DecayRule::Parse(config.decay_exclude));
  ps::JobTable table{.options = {.name = spec.name,
                                 .dim = spec.dim,
                                 .seed = config.seed,
                                 .init_range = spec.init_range},
                     .learning_rate_scale = spec.learning_rate_scale};
  PACELINE_ASSIGN(table.options.optimizer, OptimizerOf(config, rules));
  if (!decay.Decays(spec.name, 2)) {
    table.options.optimizer.weight_decay = 0;
    table.options.optimizer.ftrl_l2 = 0;
  }
  Apply(rules, table);
  return table;
}

algo::TensorRows RowsOf(const sparse::DenseSpec& tensor) {
  const auto rows = static_cast<std::uint64_t>(tensor.shape.front());
  return {.rows = rows, .row_floats = tensor.floats() / rows};
}

}  // namespace

Result<Mode> ModeOf(const job::TrainConfig& config) {
  if (config.strategy == "local") return Mode::kSync;
  constexpr std::pair<const char*, Mode> kModes[] = {{"sync", Mode::kSync},
                                                     {"async", Mode::kAsync},
                                                     {"half-async", Mode::kHalfAsync},
                                                     {"geo", Mode::kGeo},
                                                     {"ssp", Mode::kSsp}};
  for (const auto& [name, mode] : kModes) {
    if (config.mode == name) return mode;
  }
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("--mode is '{}'; it takes one of: sync, async, half-async, geo, "
                                   "ssp",
                                   config.mode));
}

std::uint64_t StepsPerRound(const job::TrainConfig& config, Mode mode) {
  if (mode == Mode::kHalfAsync) return config.merge;
  return mode == Mode::kGeo ? config.geo_steps : 1;
}

Result<algo::BatchPlan> PlanOf(const job::TrainConfig& config, std::uint64_t dataset_size) {
  const algo::BatchPlan plan{.seed = config.seed,
                             .dataset_size = dataset_size,
                             .batch = static_cast<std::uint64_t>(config.batch),
                             .shards = static_cast<std::uint64_t>(config.shards),
                             .total_samples = config.steps > 0 ? config.steps * config.GlobalBatch()
                                                               : config.epochs * dataset_size};
  PACELINE_TRY(plan.Validate());
  return plan;
}

Result<ps::JobSpec> DescribeJob(const job::TrainConfig& config, const ModelWithData& model,
                                std::uint64_t trainers) {
  PACELINE_ASSIGN(const Mode mode, ModeOf(config));
  PACELINE_ASSIGN(const ps::RowOptimizerOptions optimizer, OptimizerOf(config));
  PACELINE_ASSIGN(const algo::DecayRule decay, algo::DecayRule::Parse(config.decay_exclude));
  // Alone there is nobody to wait for: rounds of one would only cost time.
  const bool together = mode == Mode::kSync && config.strategy != "local";
  ps::JobSpec spec{.fingerprint = job::ServerFingerprint(config, model.fingerprint),
                   .apply = together ? ps::Apply::kTogether : ps::Apply::kAtOnce,
                   .trainers = trainers,
                   .tables = {},
                   .dense = {},
                   .dense_optimizer = optimizer,
                   .delay_compensation =
                       mode == Mode::kAsync ? static_cast<float>(config.delay_compensation) : 0.0F};
  std::vector<std::string> names;
  for (const sparse::TableSpec& table : model.model->tables()) {
    PACELINE_ASSIGN(ps::JobTable made, TableOf(config, table));
    spec.tables.push_back(std::move(made));
    names.push_back(table.name);
  }
  PACELINE_TRY(job::CheckTableNames(config, names));
  for (const sparse::DenseSpec& tensor : model.model->dense()) {
    const bool decays = decay.Decays(tensor.name, tensor.shape.size());
    spec.dense.push_back({.name = tensor.name,
                          .rows = RowsOf(tensor),
                          .kind = decays ? ps::DenseKind::kParameter : ps::DenseKind::kWithoutDecay,
                          .learning_rate_scale = tensor.learning_rate_scale,
                          .shape = tensor.shape});
  }
  return spec;
}

}  // namespace paceline::fused

#include "train/checkpointing.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "job/train_config.h"

namespace paceline::train {

namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kAverageFile[] = "ema.safetensors";

disk::TensorView View(const std::string& name, const std::vector<std::int64_t>& shape,
                      std::span<const float> values) {
  return {name, wire::DType::kF32, shape, std::as_bytes(values)};
}

std::string StateName(const NamedRange& range, const Optimizer::State& state) {
  return range.name + "." + state.name;
}

std::span<float> StateRange(Optimizer::State& state, const NamedRange& range) {
  return state.values.subspan(range.offset, range.count);
}

// Calls body(file, name, shape, values) for every tensor of the state. Saving and loading walk the
// same list, so they cannot disagree.
template <typename Body>
Status ForEachTensor(Trainer& trainer, const Body& body) {
  for (FlatTensors* tensors : {&trainer.params(), &trainer.buffers()}) {
    for (const NamedRange& range : tensors->ranges()) {
      PACELINE_TRY(body(kModelFile, range.name, range.shape, tensors->Of(range)));
    }
  }
  for (Optimizer::State& state : trainer.optimizer().states()) {
    for (const NamedRange& range : trainer.params().ranges()) {
      PACELINE_TRY(
          body(kOptimizerFile, StateName(range, state), range.shape, StateRange(state, range)));
    }
  }
  if (ParameterAverage* average = trainer.average()) {
    for (const NamedRange& range : trainer.params().ranges()) {
      PACELINE_TRY(body(kAverageFile, range.name, range.shape,
                        average->params().subspan(range.offset, range.count)));
    }
    for (const NamedRange& range : trainer.buffers().ranges()) {
      PACELINE_TRY(body(kAverageFile, range.name, range.shape,
                        average->buffers().subspan(range.offset, range.count)));
    }
  }
  return {};
}

Status CopyOut(const disk::LoadedCheckpoint& checkpoint, const char* file, const std::string& name,
               const std::vector<std::int64_t>& shape, std::span<float> values) {
  const auto view = checkpoint.Find(file, name);
  if (!view) {
    return Status::Error(Code::kBadCheckpoint, fmt::format("{} has no tensor {}", file, name));
  }
  if (view->dtype != wire::DType::kF32 || view->shape != shape) {
    return Status::Error(Code::kBadCheckpoint,
                         fmt::format("{}: {} has shape [{}], this model needs [{}]", file, name,
                                     fmt::join(view->shape, ","), fmt::join(shape, ",")));
  }
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return {};
}

Status CheckIdentity(const disk::CheckpointMeta& meta, const RunIdentity& identity) {
  const std::vector<std::string> lines = job::Differences(meta.config, identity.config);
  if (lines.empty()) return {};
  return Status::Error(Code::kMismatch,
                       fmt::format("the checkpoint belongs to a different run configuration: {}",
                                   fmt::join(lines, "; ")));
}

std::uint64_t Counter(const disk::CheckpointMeta& meta, const char* name) {
  const auto found = meta.counters.find(name);
  if (found == meta.counters.end()) return 0;
  const auto* whole = std::get_if<std::int64_t>(&found->second);
  return whole == nullptr || *whole < 0 ? 0 : static_cast<std::uint64_t>(*whole);
}

// Numbers that only some runs have are left out of the others' manifests.
std::map<std::string, disk::Number> Counters(Trainer& trainer, const RunPosition& position) {
  const auto whole = [](std::uint64_t number) { return static_cast<std::int64_t>(number); };
  std::map<std::string, disk::Number> counters{
      {"optimizer_updates", whole(trainer.optimizer().updates())},
      {"skipped_steps", whole(position.skipped)},
      {"skipped_in_row", whole(position.skipped_in_row)},
  };
  const algo::BestSoFar& best = position.best;
  if (best.judged > Step(0)) {
    counters["judged_step"] = whole(best.judged.value());
    counters["evaluations_since_best"] = whole(best.since);
  }
  if (best.known) {
    counters["best_value"] = best.value;
    counters["best_step"] = whole(best.step.value());
  }
  if (trainer.loss_scale().dynamic) {
    counters["loss_scale"] = trainer.loss_scale().scale;
    counters["loss_scale_good_steps"] = whole(trainer.loss_scale().good_steps);
  }
  return counters;
}

double Real(const disk::CheckpointMeta& meta, const char* name, double otherwise) {
  const auto found = meta.counters.find(name);
  if (found == meta.counters.end()) return otherwise;
  return std::visit([](auto number) { return static_cast<double>(number); }, found->second);
}

algo::BestSoFar ReadBest(const disk::CheckpointMeta& meta) {
  return {.known = meta.counters.contains("best_value"),
          .value = Real(meta, "best_value", 0),
          .step = Step(Counter(meta, "best_step")),
          .judged = Step(Counter(meta, "judged_step")),
          .since = Counter(meta, "evaluations_since_best")};
}

void ReadLossScale(const disk::CheckpointMeta& meta, algo::LossScale& scale) {
  if (!scale.dynamic) return;
  scale.scale = std::clamp(Real(meta, "loss_scale", scale.scale), 1.0, algo::LossScale::kMost);
  scale.good_steps = Counter(meta, "loss_scale_good_steps");
}

}  // namespace

Result<Generation> SaveCheckpoint(disk::CheckpointStore& store, Trainer& trainer,
                                  const RunPosition& position, const RunIdentity& identity) {
  disk::CheckpointMeta meta;
  meta.step = position.next_step;
  meta.epoch = position.epoch;
  meta.sample_position = position.samples;
  meta.world_size = identity.workers;
  meta.seed = identity.seed;
  meta.optimizer = identity.optimizer;
  meta.model = identity.model;
  meta.model_hash = trainer.params().Hash();
  meta.config = identity.config;
  meta.counters = Counters(trainer, position);
  std::vector<disk::CheckpointFile> files{{kModelFile, {}}};
  PACELINE_TRY(ForEachTensor(
      trainer,
      [&](const char* file, const std::string& name, const std::vector<std::int64_t>& shape,
          std::span<const float> values) -> Status {
        if (files.back().name != file) files.push_back({file, {}});
        files.back().tensors.push_back(View(name, shape, values));
        return {};
      }));
  return store.Save(meta, files);
}

Result<Restored> RestoreCheckpoint(disk::CheckpointStore& store, Trainer& trainer,
                                   const RunIdentity& identity) {
  PACELINE_ASSIGN(const disk::LoadedCheckpoint checkpoint, store.LoadNewest());
  PACELINE_TRY(CheckIdentity(checkpoint.meta, identity));
  PACELINE_TRY(ForEachTensor(
      trainer,
      [&](const char* file, const std::string& name, const std::vector<std::int64_t>& shape,
          std::span<float> values) { return CopyOut(checkpoint, file, name, shape, values); }));
  const std::string hash = trainer.params().Hash();
  if (hash != checkpoint.meta.model_hash) {
    return Status::Error(Code::kBadCheckpoint,
                         fmt::format("parameters hash to {}, the manifest says {}", hash,
                                     checkpoint.meta.model_hash));
  }
  trainer.optimizer().SetUpdates(Counter(checkpoint.meta, "optimizer_updates"));
  ReadLossScale(checkpoint.meta, trainer.loss_scale());
  Restored restored;
  restored.generation = checkpoint.meta.generation;
  restored.position = {.next_step = checkpoint.meta.step,
                       .samples = checkpoint.meta.sample_position,
                       .epoch = checkpoint.meta.epoch,
                       .skipped = Counter(checkpoint.meta, "skipped_steps"),
                       .skipped_in_row = Counter(checkpoint.meta, "skipped_in_row"),
                       .best = ReadBest(checkpoint.meta)};
  restored.warnings = checkpoint.warnings;
  return restored;
}

}  // namespace paceline::train

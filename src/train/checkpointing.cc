#include "train/checkpointing.h"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "job/train_config.h"

namespace paceline::train {

namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";

disk::TensorView View(const std::string& name, const std::vector<std::int64_t>& shape,
                      std::span<const float> values) {
  return {name, wire::DType::kF32, shape, std::as_bytes(values)};
}

std::string StateName(const NamedRange& range, const Optimizer::State& state) {
  return range.name + "." + state.name;
}

std::span<float> StateRange(Optimizer::State& state, const NamedRange& range) {
  return std::span(state.values).subspan(range.offset, range.count);
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

}  // namespace

Status SaveCheckpoint(disk::CheckpointStore& store, Trainer& trainer, const RunPosition& position,
                      const RunIdentity& identity) {
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
  meta.counters = {
      {"optimizer_updates", static_cast<std::int64_t>(trainer.optimizer().updates())},
      {"skipped_steps", static_cast<std::int64_t>(position.skipped)},
      {"skipped_in_row", static_cast<std::int64_t>(position.skipped_in_row)},
  };
  std::vector<disk::CheckpointFile> files{{kModelFile, {}}};
  PACELINE_TRY(ForEachTensor(
      trainer,
      [&](const char* file, const std::string& name, const std::vector<std::int64_t>& shape,
          std::span<const float> values) -> Status {
        if (files.back().name != file) files.push_back({file, {}});
        files.back().tensors.push_back(View(name, shape, values));
        return {};
      }));
  return store.Save(meta, files).status();
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
  Restored restored;
  restored.position = {.next_step = checkpoint.meta.step,
                       .samples = checkpoint.meta.sample_position,
                       .epoch = checkpoint.meta.epoch,
                       .skipped = Counter(checkpoint.meta, "skipped_steps"),
                       .skipped_in_row = Counter(checkpoint.meta, "skipped_in_row")};
  restored.warnings = checkpoint.warnings;
  return restored;
}

}  // namespace paceline::train

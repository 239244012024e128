// The part of Trainer that places, copies, compares and hashes everything that a step changes.
#include <algorithm>
#include <array>
#include <bit>

#include "kernel/hash.h"
#include "train/trainer.h"

namespace paceline::train {

// Workers of one host keep parameters and the optimiser's state once, and each updates a slice of
// them. Not where workers may die and the others go on, which need a whole state, and not with an
// average, which takes the parameters' place while the first worker evaluates.
Status Trainer::ShareState() {
  if (options_.engine == nullptr || options_.engine->world() == 1 || average_) return {};
  collective::Engine& engine = *options_.engine;
  const std::size_t floats = params_.All().size();
  PACELINE_ASSIGN(const std::span<float> common,
                  engine.AllocateCommon(floats + optimizer_->StateFloats()));
  if (common.empty()) return {};
  // All have the same values: one brings them.
  const bool brings = engine.rank() == Rank(0);
  const auto values = brings ? FlatTensors::Values::kBring : FlatTensors::Values::kTake;
  params_.MoveTo(common.first(floats), parameters_, values);
  optimizer_->MoveTo(common.subspan(floats), values);
  share_ = {engine.rank().value(), engine.world()};
  return engine.Barrier();
}

// Into a copy: until all of it is there, what this worker had stays valid.
Status Trainer::Synchronize(Rank root) {
  collective::Engine& engine = *options_.engine;
  std::vector<std::span<float>> parts{params_.All(), buffers_.All()};
  for (Optimizer::State& state : optimizer_->states()) parts.emplace_back(state.values);
  if (average_) parts.insert(parts.end(), {average_->params(), average_->buffers()});
  std::array<std::uint64_t, 3> counts{optimizer_->updates(),
                                      std::bit_cast<std::uint64_t>(loss_scale_.scale),
                                      loss_scale_.good_steps};
  PACELINE_TRY(engine.Broadcast(std::as_writable_bytes(std::span(counts)), root));
  std::vector<std::vector<float>> copies;
  for (const std::span<float> part : parts) {
    copies.emplace_back(engine.rank() == root ? 0 : part.size());
    const std::span<float> into = engine.rank() == root ? part : std::span(copies.back());
    PACELINE_TRY(engine.Broadcast(std::as_writable_bytes(into), root));
  }
  if (engine.rank() == root) return {};
  for (std::size_t i = 0; i < parts.size(); ++i) std::ranges::copy(copies[i], parts[i].begin());
  optimizer_->SetUpdates(counts[0]);
  loss_scale_.scale = std::bit_cast<double>(counts[1]);
  loss_scale_.good_steps = counts[2];
  return {};
}

Status Trainer::VerifyReplicas() {
  collective::Engine& engine = *options_.engine;
  const std::string mine = params_.Hash() + (average_ ? average_->Hash() : "");
  std::string hashes(mine.size() * engine.world(), ' ');
  hashes.replace(engine.rank().value() * mine.size(), mine.size(), mine);
  PACELINE_TRY(engine.AllGather(std::as_writable_bytes(std::span(hashes))));
  std::string different;
  for (std::uint64_t rank = 1; rank < engine.world(); ++rank) {
    if (hashes.compare(rank * mine.size(), mine.size(), hashes, 0, mine.size()) == 0) continue;
    different += (different.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (different.empty()) return {};
  return Status::Error(Code::kInternal, "the replicas have diverged: rank(s) " + different +
                                            " hold other parameters than rank 0");
}

Trainer::StateHash Trainer::HashState() const {
  StateHash hash;
  kernel::Hasher all;
  const auto add = [&](const std::string& name, std::span<const float> values) {
    kernel::Hasher one;
    one.Update(std::as_bytes(values));
    constexpr std::size_t kDigits = 16;
    hash.tensors.emplace_back(name, one.Hex().substr(0, kDigits));
    all.Update(name);
    all.Update(hash.tensors.back().second);
  };
  for (const NamedRange& range : params_.ranges()) add(range.name, params_.Of(range));
  for (const NamedRange& range : buffers_.ranges()) add(range.name, buffers_.Of(range));
  for (const Optimizer::State& state : optimizer_->states()) {
    for (const NamedRange& range : params_.ranges()) {
      add(range.name + "." + state.name, state.values.subspan(range.offset, range.count));
    }
  }
  if (average_) {
    for (const NamedRange& range : params_.ranges()) {
      add(range.name + ".ema", average_->params().subspan(range.offset, range.count));
    }
    for (const NamedRange& range : buffers_.ranges()) {
      add(range.name + ".ema", average_->buffers().subspan(range.offset, range.count));
    }
  }
  if (loss_scale_.dynamic) {
    add("loss_scale", std::array{static_cast<float>(loss_scale_.scale),
                                 static_cast<float>(loss_scale_.good_steps)});
  }
  hash.all = all.Hex();
  return hash;
}

}  // namespace paceline::train

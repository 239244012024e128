#include "sparse/ctr_dnn.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "algo/sample_order.h"
#include "base/check.h"
#include "base/rng.h"

namespace paceline::sparse {

using data::kCtrDense;
using data::kCtrSlots;

namespace {

const CtrBatch& OwnBatch(const SparseBatch& batch) {
  const auto* own = dynamic_cast<const CtrBatch*>(&batch);
  PACELINE_CHECK(own != nullptr, "a batch that this model prepared");
  return *own;
}

}  // namespace

Result<CtrDnnShape> FindCtrDnnShape(std::string_view name) {
  if (name == "ctr-dnn") return CtrDnnShape{};
  if (name == "ctr-dnn-small") {
    return CtrDnnShape{.rows = 1001, .dim = 4, .width = 32, .hidden_layers = 3, .init_range = 0.1F};
  }
  return Status::Error(Code::kNotFound,
                       fmt::format("no click model '{}'; there are ctr-dnn, ctr-dnn-small", name));
}

Result<std::unique_ptr<CtrDnn>> CtrDnn::Create(const Options& options,
                                               std::shared_ptr<const data::CtrDataset> dataset) {
  if (dataset->size() == 0) return Status::Error(Code::kBadData, "no samples to train on");
  if (dataset->ids() > options.shape.rows) {
    return Status::Error(Code::kMismatch,
                         fmt::format("the data has {} ids, the model's table {} rows",
                                     dataset->ids(), options.shape.rows));
  }
  return std::unique_ptr<CtrDnn>(new CtrDnn(options, std::move(dataset)));
}

CtrDnn::CtrDnn(const Options& options, std::shared_ptr<const data::CtrDataset> dataset)
    : options_(options), dataset_(std::move(dataset)) {
  const CtrDnnShape& shape = options_.shape;
  tables_.push_back(
      {.name = "embedding", .rows = shape.rows, .dim = shape.dim, .init_range = shape.init_range});
  std::size_t offset = 0;
  for (std::size_t layer = 0; layer <= shape.hidden_layers; ++layer) {
    const bool last = layer == shape.hidden_layers;
    const auto inputs = static_cast<std::int64_t>(InputsOf(layer));
    const auto outputs = last ? std::int64_t{2} : static_cast<std::int64_t>(shape.width);
    const std::string name = last ? "output" : fmt::format("hidden{}", layer + 1);
    weights_offsets_.push_back(offset);
    dense_.push_back({.name = name + ".weight", .shape = {inputs, outputs}});
    dense_.push_back({.name = name + ".bias", .shape = {outputs}});
    offset += dense_[2 * layer].floats() + dense_[2 * layer + 1].floats();
  }
  activations_.resize(shape.hidden_layers + 1);
  head_scratch_.resize(2 * InputsOf(shape.hidden_layers));
}

std::size_t CtrDnn::InputsOf(std::size_t layer) const {
  return layer == 0 ? embedding_floats() + kCtrDense : options_.shape.width;
}

template <typename Float>
std::span<Float> CtrDnn::Weights(std::size_t layer, std::span<Float> dense) const {
  return dense.subspan(weights_offsets_[layer], dense_[2 * layer].floats());
}

template <typename Float>
std::span<Float> CtrDnn::Bias(std::size_t layer, std::span<Float> dense) const {
  return dense.subspan(weights_offsets_[layer] + dense_[2 * layer].floats(),
                       dense_[2 * layer + 1].floats());
}

std::span<float> CtrDnn::Activations(std::size_t layer, std::size_t samples) {
  return std::span(activations_[layer]).first(samples * InputsOf(layer));
}

// Weights are normal with variance 1 / inputs, biases 0, as in the reference.
void CtrDnn::InitialiseDense(std::uint64_t seed, std::span<float> values) const {
  std::ranges::fill(values, 0.0F);
  for (std::size_t layer = 0; layer < weights_offsets_.size(); ++layer) {
    CounterRng rng(seed, Purpose::kInit, 2 * layer, 0);
    const float deviation = 1 / std::sqrt(static_cast<float>(InputsOf(layer)));
    for (float& weight : Weights(layer, values)) weight = deviation * rng.Normal();
  }
}

Result<std::unique_ptr<SparseBatch>> CtrDnn::Prepare(const algo::PositionRange& positions,
                                                     std::unique_ptr<SparseBatch> into) const {
  auto* batch = dynamic_cast<CtrBatch*>(into.get());
  if (batch == nullptr) {
    into = std::make_unique<CtrBatch>();
    batch = static_cast<CtrBatch*>(into.get());
  }
  batch->samples = positions.count;
  batch->ids.resize(1);
  batch->ids[0].clear();
  batch->dense.resize(positions.count * kCtrDense);
  batch->rows.resize(positions.count * kCtrSlots);
  batch->labels.resize(positions.count);
  batch->unique.Reset(batch->rows.size());
  const std::uint64_t epoch_samples = dataset_->size();
  for (std::uint64_t done = 0; done < positions.count;) {
    const std::uint64_t first = positions.begin + done;
    const algo::SampleOrder order(options_.order_seed, first / epoch_samples, epoch_samples);
    const std::uint64_t left = epoch_samples - first % epoch_samples;
    const std::uint64_t end = std::min(positions.count, done + left);
    for (std::uint64_t place = first % epoch_samples; done < end; ++done, ++place) {
      PACELINE_TRY(dataset_->Read(order.At(place), batch->sample));
      std::ranges::copy(batch->sample.dense, batch->dense.data() + done * kCtrDense);
      for (const auto id : batch->sample.ids) batch->unique.Prefetch(std::int64_t{id});
      std::uint32_t* rows = batch->rows.data() + done * kCtrSlots;
      for (std::size_t slot = 0; slot < kCtrSlots; ++slot) {
        rows[slot] = batch->unique.Add(std::int64_t{batch->sample.ids[slot]}, batch->ids[0]);
      }
      batch->labels[done] = batch->sample.label;
    }
  }
  return into;
}

void CtrDnn::Reserve(std::size_t samples) {
  if (activations_[0].size() >= samples * InputsOf(0)) return;
  for (std::size_t layer = 0; layer < activations_.size(); ++layer) {
    activations_[layer].resize(samples * InputsOf(layer));
  }
  const std::size_t widest = std::max(options_.shape.width, InputsOf(0));
  gradient_.resize(samples * widest);
  next_gradient_.resize(samples * widest);
}

// Embeddings first: their gradient is then that of the first columns, and nobody computes the rest.
void CtrDnn::GatherInput(const CtrBatch& batch, std::span<const float* const> rows) {
  const std::size_t dim = options_.shape.dim;
  float* out = activations_[0].data();
  for (std::size_t n = 0; n < batch.samples; ++n) {
    for (std::size_t slot = 0; slot < kCtrSlots; ++slot, out += dim) {
      std::memcpy(out, rows[batch.rows[n * kCtrSlots + slot]], dim * sizeof(float));
    }
    out = std::copy_n(batch.dense.data() + n * kCtrDense, kCtrDense, out);
  }
}

void CtrDnn::Forward(const CtrBatch& batch, std::span<const float> dense, const TableRows& rows) {
  PACELINE_CHECK(rows.values.size() == batch.ids[0].size(), "a row for each id");
  Reserve(batch.samples);
  GatherInput(batch, rows.values);
  for (std::size_t layer = 0; layer < options_.shape.hidden_layers; ++layer) {
    layers_.Forward({batch.samples, InputsOf(layer), options_.shape.width},
                    {Weights(layer, dense), Bias(layer, dense)}, Activations(layer, batch.samples),
                    Activations(layer + 1, batch.samples));
  }
}

// gradient_ holds that of the embeddings, [samples, 26 * dim].
void CtrDnn::ScatterGradient(const CtrBatch& batch, std::span<float> row_gradient) const {
  const std::size_t dim = options_.shape.dim;
  PACELINE_CHECK(row_gradient.size() == batch.ids[0].size() * dim, "a gradient for each row");
  std::ranges::fill(row_gradient, 0.0F);
  const float* __restrict from = gradient_.data();
  for (const std::uint32_t row : batch.rows) {
    float* __restrict sum = row_gradient.data() + row * dim;
    for (std::size_t i = 0; i < dim; ++i) sum[i] += from[i];
    from += dim;
  }
}

StepLoss CtrDnn::Compute(const SparseBatch& batch, std::span<const float> dense, float scale,
                         std::span<float> dense_gradient, std::span<const TableRows> tables) {
  const CtrBatch& clicks = OwnBatch(batch);
  const std::size_t samples = clicks.samples, width = options_.shape.width;
  Forward(clicks, dense, tables[0]);
  const std::size_t last = options_.shape.hidden_layers;
  const double loss =
      kernel::TwoClassLoss({InputsOf(last), Weights(last, dense), Bias(last, dense), head_scratch_},
                           Activations(last, samples),
                           {.scale = scale,
                            .labels = clicks.labels,
                            .weights_gradient = Weights(last, dense_gradient),
                            .bias_gradient = Bias(last, dense_gradient),
                            .input_gradient = std::span(gradient_).first(samples * width)});
  for (std::size_t layer = last; layer-- > 0;) {
    const std::size_t wanted = layer == 0 ? embedding_floats() : width;
    layers_.Backward({samples, InputsOf(layer), width}, Weights(layer, dense),
                     {.input = Activations(layer, samples),
                      .output = Activations(layer + 1, samples),
                      .output_gradient = std::span(gradient_).first(samples * width),
                      .weights_gradient = Weights(layer, dense_gradient),
                      .bias_gradient = Bias(layer, dense_gradient),
                      .input_gradient = std::span(next_gradient_).first(samples * wanted)});
    std::swap(gradient_, next_gradient_);
  }
  ScatterGradient(clicks, tables[0].gradient);
  return {.sum = loss, .samples = samples};
}

void CtrDnn::Score(const SparseBatch& batch, std::span<const float> dense,
                   std::span<const TableRows> tables, std::vector<Scored>& scored) {
  const CtrBatch& clicks = OwnBatch(batch);
  Forward(clicks, dense, tables[0]);
  const std::size_t last = options_.shape.hidden_layers;
  const std::span<float> probability = std::span(gradient_).first(clicks.samples);
  kernel::TwoClassForward({InputsOf(last), Weights(last, dense), Bias(last, dense), head_scratch_},
                          Activations(last, clicks.samples), probability);
  for (std::size_t n = 0; n < clicks.samples; ++n) {
    scored.push_back({probability[n], static_cast<float>(clicks.labels[n])});
  }
}

}  // namespace paceline::sparse

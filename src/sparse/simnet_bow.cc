#include "sparse/simnet_bow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algo/sample_order.h"
#include "base/check.h"
#include "base/rng.h"
#include "kernel/matrix_product.h"
#include "kernel/reduce.h"
#include "kernel/skip_gram.h"

namespace paceline::sparse {

namespace {

constexpr std::size_t kQuery = 0, kTitle = 1;  // layers

float XavierRange(std::uint64_t inputs, std::uint64_t outputs) {
  return static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs + outputs)));
}

// Replaces ids in `words` by their places among the distinct ones, which are sorted.
void MakeUnique(std::span<const std::int64_t> words, SimnetBatch& batch) {
  batch.ids.resize(1);
  std::vector<std::int64_t>& ids = batch.ids[0];
  ids.assign(words.begin(), words.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  batch.words.clear();
  for (const std::int64_t word : words) {
    const auto place = std::ranges::lower_bound(ids, word) - ids.begin();
    batch.words.push_back(static_cast<std::uint32_t>(place));
  }
}

// Cosine of two vectors and what its gradient needs.
struct Cosine {
  float value = 0;
  float inverse_lengths = 0;  // 1 / (|a| |b|); 0 when one has no length: then there is no gradient
  float inverse_square_a = 0, inverse_square_b = 0;
};

Cosine CosineOf(std::span<const float> a, std::span<const float> b) {
  const float aa = kernel::Dot(a, a), bb = kernel::Dot(b, b);
  if (aa == 0 || bb == 0) return {};
  const float inverse = 1 / (std::sqrt(aa) * std::sqrt(bb));
  return {kernel::Dot(a, b) * inverse, inverse, 1 / aa, 1 / bb};
}

template <typename Float>
struct TwoVectors {
  std::span<Float> a, b;
};

// sums.a += factor * d cos / d a, and the same for b.
void AddCosineGradient(const Cosine& cosine, float factor, const TwoVectors<const float>& at,
                       const TwoVectors<float>& sums) {
  if (cosine.inverse_lengths == 0) return;
  const float cross = factor * cosine.inverse_lengths;
  const float own_a = factor * cosine.value * cosine.inverse_square_a;
  const float own_b = factor * cosine.value * cosine.inverse_square_b;
  for (std::size_t i = 0; i < at.a.size(); ++i) {
    sums.a[i] += cross * at.b[i] - own_a * at.a[i];
    sums.b[i] += cross * at.a[i] - own_b * at.b[i];
  }
}

}  // namespace

double PairOrder::Accuracy() const {
  const std::uint64_t all = right + wrong + equal;
  return all == 0 ? 0 : static_cast<double>(right) / static_cast<double>(all);
}

double PairOrder::Ratio() const {
  if (wrong == 0) return right == 0 ? 0 : std::numeric_limits<double>::infinity();
  return static_cast<double>(right) / static_cast<double>(wrong);
}

SimnetBow::SimnetBow(const SimnetBowOptions& options, const data::SimnetSource& source)
    : options_(options), source_(source) {
  PACELINE_CHECK(options.embedding > 0 && options.hidden > 0, "sizes");
  // The benchmark multiplies its learning rate of 1e-4 by 5 * batch (128) for the table and by 200
  // for the layers.
  tables_ = {{.name = "embedding",
              .rows = source.dictionary(),
              .dim = options.embedding,
              .init_range = XavierRange(source.dictionary(), options.embedding),
              .learning_rate_scale = 640}};
  const auto inputs = static_cast<std::int64_t>(options.embedding);
  const auto outputs = static_cast<std::int64_t>(options.hidden);
  for (const char* layer : {"query", "title"}) {
    dense_.push_back({std::string(layer) + ".weights", {inputs, outputs}, 200});
    dense_.push_back({std::string(layer) + ".bias", {outputs}, 200});
  }
}

void SimnetBow::InitialiseDense(std::uint64_t seed, std::span<float> values) const {
  std::ranges::fill(values, 0.0F);
  const float range = XavierRange(options_.embedding, options_.hidden);
  for (const std::size_t which : {kQuery, kTitle}) {
    CounterRng rng(seed, Purpose::kInit, which, 1);
    for (float& weight : LayerOf(values, which).weights) weight = (2 * rng.Uniform() - 1) * range;
  }
}

template <typename Float>
SimnetBow::Layer<Float> SimnetBow::LayerOf(std::span<Float> dense, std::size_t which) const {
  const std::size_t weights = options_.embedding * options_.hidden;
  PACELINE_CHECK(dense.size() == 2 * (weights + options_.hidden), "all dense tensors");
  const std::span<Float> part =
      dense.subspan(which * (weights + options_.hidden), weights + options_.hidden);
  return {part.first(weights), part.subspan(weights)};
}

Result<std::unique_ptr<SparseBatch>> SimnetBow::Prepare(const algo::PositionRange& positions,
                                                        std::unique_ptr<SparseBatch> into) const {
  if (into == nullptr) into = std::make_unique<SimnetBatch>();
  auto& batch = static_cast<SimnetBatch&>(*into);
  const std::uint64_t size = dataset_size();
  std::vector<data::SimnetSample> samples(positions.count);
  for (std::uint64_t done = 0; done < positions.count;) {
    const std::uint64_t first = (positions.begin + done) % size;
    const algo::SampleOrder order(options_.seed, (positions.begin + done) / size, size);
    const std::uint64_t count = std::min(positions.count - done, size - first);
    for (std::uint64_t i = 0; i < count; ++i) {
      PACELINE_TRY(source_.Read(order.At(first + i), samples[done + i]));
    }
    done += count;
  }
  std::vector<std::int64_t> words;
  batch.ends.clear();
  for (const auto text :
       {&data::SimnetSample::query, &data::SimnetSample::positive, &data::SimnetSample::negative}) {
    for (const data::SimnetSample& sample : samples) {
      words.insert(words.end(), (sample.*text).begin(), (sample.*text).end());
      batch.ends.push_back(static_cast<std::uint32_t>(words.size()));
    }
  }
  MakeUnique(words, batch);
  batch.samples = positions.count;
  return into;
}

void SimnetBow::Pool(const SimnetBatch& batch, const TableRows& rows) {
  const std::size_t dim = options_.embedding;
  pooled_.assign(batch.ends.size() * dim, 0.0F);
  std::uint32_t word = 0;
  for (std::size_t text = 0; text < batch.ends.size(); ++text) {
    const std::span<float> sum = std::span(pooled_).subspan(text * dim, dim);
    for (; word < batch.ends[text]; ++word) {
      kernel::AddInto(sum, {rows.values[batch.words[word]], dim});
    }
    for (float& value : sum) value /= 1 + std::abs(value);
  }
}

void SimnetBow::Forward(const SimnetBatch& batch, std::span<const float> dense,
                        const TableRows& rows) {
  Pool(batch, rows);
  const std::size_t in = options_.embedding, out = options_.hidden;
  const std::size_t queries = batch.ends.size() / 3;
  output_.resize(batch.ends.size() * out);
  const auto apply = [&](std::size_t which, std::size_t first, std::size_t texts) {
    const Layer<const float> layer = LayerOf(dense, which);
    const std::span<float> output = std::span(output_).subspan(first * out, texts * out);
    for (std::size_t t = 0; t < texts; ++t) {
      std::ranges::copy(layer.bias, output.subspan(t * out, out).begin());
    }
    kernel::Multiply({texts, out, in}, {std::span(pooled_).subspan(first * in, texts * in), in},
                     {layer.weights, out}, {output, out, kernel::Into::kAdd});
  };
  apply(kQuery, 0, queries);
  apply(kTitle, queries, 2 * queries);
}

// Fills output_gradient_ and returns the sum of losses.
double SimnetBow::CosineGradients(std::size_t samples, float scale) {
  const std::size_t dim = options_.hidden;
  output_gradient_.assign(output_.size(), 0.0F);
  double sum = 0;
  for (std::size_t s = 0; s < samples; ++s) {
    const auto output = [&](std::size_t kind) {
      return std::span(output_).subspan((kind * samples + s) * dim, dim);
    };
    const auto gradient = [&](std::size_t kind) {
      return std::span(output_gradient_).subspan((kind * samples + s) * dim, dim);
    };
    const Cosine fits = CosineOf(output(0), output(1)), other = CosineOf(output(0), output(2));
    const float loss = options_.margin - fits.value + other.value;
    if (loss <= 0) continue;  // NaN is not: it shows in the sum
    sum += static_cast<double>(loss);
    AddCosineGradient(fits, -scale, {output(0), output(1)}, {gradient(0), gradient(1)});
    AddCosineGradient(other, scale, {output(0), output(2)}, {gradient(0), gradient(2)});
  }
  return sum;
}

// Gradients of one layer, and of what went into softsign before it.
void SimnetBow::LayerBackward(std::size_t first_text, std::size_t texts,
                              std::span<const float> weights, const Layer<float>& gradient) {
  const std::size_t in = options_.embedding, out = options_.hidden;
  const auto part = [&](std::vector<float>& all, std::size_t dim) {
    return std::span(all).subspan(first_text * dim, texts * dim);
  };
  const std::span<const float> output_gradient = part(output_gradient_, out);
  const std::span<const float> pooled = part(pooled_, in);
  const std::span<float> pooled_gradient = part(pooled_gradient_, in);
  for (std::size_t t = 0; t < texts; ++t) {
    kernel::AddInto(gradient.bias, output_gradient.subspan(t * out, out));
  }
  if (texts > 0) {
    kernel::Multiply({in, out, texts}, {pooled, 1, in}, {output_gradient, out},
                     {gradient.weights, out, kernel::Into::kAdd});
  }
  kernel::Multiply({texts, in, out}, {output_gradient, out}, {weights, 1, out},
                   {pooled_gradient, in, kernel::Into::kAdd});
  // With y = x / (1 + |x|): 1 - |y| = 1 / (1 + |x|), so dy / dx = (1 - |y|)^2.
  for (std::size_t i = 0; i < pooled.size(); ++i) {
    const float rest = 1 - std::abs(pooled[i]);
    pooled_gradient[i] *= rest * rest;
  }
}

void SimnetBow::Unpool(const SimnetBatch& batch, const TableRows& rows) const {
  const std::size_t dim = options_.embedding;
  std::ranges::fill(rows.gradient, 0.0F);
  std::uint32_t word = 0;
  for (std::size_t text = 0; text < batch.ends.size(); ++text) {
    const auto gradient = std::span(pooled_gradient_).subspan(text * dim, dim);
    for (; word < batch.ends[text]; ++word) {
      kernel::AddInto(rows.gradient.subspan(batch.words[word] * dim, dim), gradient);
    }
  }
}

StepLoss SimnetBow::Compute(const SparseBatch& batch, std::span<const float> dense, float scale,
                            std::span<float> dense_gradient, std::span<const TableRows> tables) {
  const auto& texts = static_cast<const SimnetBatch&>(batch);
  const std::size_t queries = texts.ends.size() / 3;
  Forward(texts, dense, tables[0]);
  StepLoss loss{.sum = CosineGradients(queries, scale), .samples = batch.samples};
  std::ranges::fill(dense_gradient, 0.0F);
  pooled_gradient_.assign(pooled_.size(), 0.0F);
  LayerBackward(0, queries, LayerOf(dense, kQuery).weights, LayerOf(dense_gradient, kQuery));
  LayerBackward(queries, 2 * queries, LayerOf(dense, kTitle).weights,
                LayerOf(dense_gradient, kTitle));
  Unpool(texts, tables[0]);
  return loss;
}

void SimnetBow::Score(const SparseBatch& batch, std::span<const float> dense,
                      std::span<const TableRows> tables, std::vector<Scored>& scored) {
  const auto& texts = static_cast<const SimnetBatch&>(batch);
  const std::size_t samples = texts.ends.size() / 3, dim = options_.hidden;
  Forward(texts, dense, tables[0]);
  for (std::size_t s = 0; s < samples; ++s) {
    const auto output = [&](std::size_t kind) {
      return std::span(output_).subspan((kind * samples + s) * dim, dim);
    };
    scored.push_back({CosineOf(output(0), output(1)).value, 1});
    scored.push_back({CosineOf(output(0), output(2)).value, 0});
  }
}

PairOrder SimnetBow::OrderOf(std::span<const Scored> scored) {
  PairOrder order;
  for (std::size_t i = 0; i + 1 < scored.size(); i += 2) {
    const float fits = scored[i].score, other = scored[i + 1].score;
    ++(fits > other ? order.right : fits < other ? order.wrong : order.equal);
  }
  return order;
}

}  // namespace paceline::sparse

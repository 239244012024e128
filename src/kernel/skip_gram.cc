#include "kernel/skip_gram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace paceline::kernel {

namespace {

using Vector = float __attribute__((vector_size(32)));
using IntVector = std::int32_t __attribute__((vector_size(32)));
constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);

inline Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

inline void Store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof(vector)); }

inline Vector Broadcast(float x) { return Vector{x, x, x, x, x, x, x, x}; }

inline float HorizontalSum(Vector v) {
  return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

constexpr std::size_t Padded(std::size_t floats) {
  return (floats + kFloats - 1) / kFloats * kFloats;
}

// exp(x) for |x| <= 87: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for exp(r) (Cephes,
// expf.c), and n added to the exponent.
inline Vector Exp(Vector x) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  const Vector shifted = x * kLog2E + kRound;
  const Vector n = shifted - kRound;
  const Vector r = (x - n * kLn2High) - n * kLn2Low;
  Vector p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const IntVector exponent = __builtin_convertvector(n, IntVector) << 23;
  return reinterpret_cast<Vector>(reinterpret_cast<IntVector>(p) + exponent);
}

inline Vector SigmoidOf(Vector x) {
  constexpr float kLimit = 87;
  x = x > Broadcast(kLimit) ? Broadcast(kLimit) : x;
  x = x < Broadcast(-kLimit) ? Broadcast(-kLimit) : x;
  return 1.0F / (1.0F + Exp(-x));
}

// The parts of the scratch memory. Rows are copied: padded with zeros they need no special last
// part, and what is read stays as it was while sums change.
struct Scratch {
  std::size_t stride;  // of a row
  float* inputs;
  float* outputs;
  float* factors;  // [input][output]: scores, then what rows are multiplied by
};

Scratch Layout(const SkipGramRows& rows, std::span<float> memory) {
  constexpr std::uintptr_t kAlignment = sizeof(Vector);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  float* start = memory.data() + (kAlignment - address % kAlignment) % kAlignment / sizeof(float);
  const std::size_t stride = Padded(rows.dim);
  float* outputs = start + rows.inputs.size() * stride;
  return {stride, start, outputs, outputs + rows.outputs.size() * stride};
}

void Gather(std::span<const float* const> rows, std::size_t dim, std::size_t stride, float* to) {
  for (const float* row : rows) {
    std::memcpy(to, row, dim * sizeof(float));
    std::fill(to + dim, to + stride, 0.0F);
    to += stride;
  }
}

// scores[i * score_stride + o] = input i . output o, for a tile that fits into registers.
template <std::size_t Inputs, std::size_t Outputs>
void DotTile(const float* inputs, const float* outputs, std::size_t stride, float* scores,
             std::size_t score_stride) {
  Vector sums[Inputs][Outputs] = {};
  for (std::size_t d = 0; d < stride; d += kFloats) {
    Vector in[Inputs];
    for (std::size_t i = 0; i < Inputs; ++i) in[i] = Load(inputs + i * stride + d);
    for (std::size_t o = 0; o < Outputs; ++o) {
      const Vector out = Load(outputs + o * stride + d);
      for (std::size_t i = 0; i < Inputs; ++i) sums[i][o] += in[i] * out;
    }
  }
  for (std::size_t i = 0; i < Inputs; ++i) {
    for (std::size_t o = 0; o < Outputs; ++o) {
      scores[i * score_stride + o] = HorizontalSum(sums[i][o]);
    }
  }
}

template <std::size_t Inputs>
void DotRows(const float* inputs, const Scratch& scratch, std::size_t outputs, float* scores) {
  std::size_t o = 0;
  for (; o + 3 <= outputs; o += 3) {
    DotTile<Inputs, 3>(inputs, scratch.outputs + o * scratch.stride, scratch.stride, scores + o,
                       outputs);
  }
  for (; o < outputs; ++o) {
    DotTile<Inputs, 1>(inputs, scratch.outputs + o * scratch.stride, scratch.stride, scores + o,
                       outputs);
  }
}

void Scores(const Scratch& scratch, std::size_t inputs, std::size_t outputs) {
  std::size_t i = 0;
  for (; i + 2 <= inputs; i += 2) {
    DotRows<2>(scratch.inputs + i * scratch.stride, scratch, outputs,
               scratch.factors + i * outputs);
  }
  if (i < inputs) {
    DotRows<1>(scratch.inputs + i * scratch.stride, scratch, outputs,
               scratch.factors + i * outputs);
  }
}

// Turns scores into what rows are multiplied by, and returns the loss. The logarithm of a product
// replaces a sum of logarithms, which would cost as much as the rest of the loss.
double FactorsAndLoss(std::span<float> scores, std::size_t outputs, float factor) {
  constexpr double kLeast = 0x1p-25;  // below it 1 - wrong has no digit left
  constexpr double kSmall = 1e-200;   // times kLeast it is still a normal number
  for (std::size_t i = 0; i < scores.size(); i += outputs) scores[i] = -scores[i];
  Sigmoid(scores);  // now the share of the wrong answer everywhere
  double loss = 0, product = 1;
  for (std::size_t i = 0; i < scores.size(); i += outputs) {
    for (std::size_t o = 0; o < outputs; ++o) {
      const float wrong = scores[i + o];
      product *= std::max(1.0 - static_cast<double>(wrong), kLeast);
      if (product < kSmall) {
        loss -= std::log(product);
        product = 1;
      }
      scores[i + o] = o == 0 ? factor * wrong : -(factor * wrong);
    }
  }
  return loss - std::log(product);
}

// How the factors of one row lie in memory.
struct Factors {
  const float* first;
  std::size_t step;
  std::size_t count;
};

template <std::size_t Vectors>
inline void Combine(const Factors& factors, const float* rows, std::size_t stride, Vector* sums) {
  for (std::size_t v = 0; v < Vectors; ++v) sums[v] = Vector{};
  for (std::size_t r = 0; r < factors.count; ++r) {
    const Vector factor = Broadcast(factors.first[r * factors.step]);
    for (std::size_t v = 0; v < Vectors; ++v) {
      sums[v] += factor * Load(rows + r * stride + v * kFloats);
    }
  }
}

// sum += the rows, each times its factor.
void AddCombination(const Factors& factors, const float* rows, std::size_t stride,
                    std::span<float> sum) {
  constexpr std::size_t kAtOnce = 6;  // independent additions hide their latency
  std::size_t d = 0;
  for (; d + kAtOnce * kFloats <= sum.size(); d += kAtOnce * kFloats) {
    Vector change[kAtOnce];
    Combine<kAtOnce>(factors, rows + d, stride, change);
    for (std::size_t v = 0; v < kAtOnce; ++v) {
      float* place = sum.data() + d + v * kFloats;
      Store(place, Load(place) + change[v]);
    }
  }
  for (; d < sum.size(); d += kFloats) {
    Vector change;
    Combine<1>(factors, rows + d, stride, &change);
    const std::size_t floats = std::min(kFloats, sum.size() - d);
    for (std::size_t k = 0; k < floats; ++k) sum[d + k] += change[k];
  }
}

}  // namespace

std::size_t SkipGramScratchFloats(std::size_t inputs, std::size_t outputs, std::size_t dim) {
  return (inputs + outputs) * Padded(dim) + inputs * outputs + kFloats;
}

double SkipGramStep(const SkipGramRows& rows, float factor, const SkipGramSums& sums,
                    std::span<float> scratch) {
  const std::size_t inputs = rows.inputs.size(), outputs = rows.outputs.size();
  PACELINE_CHECK(outputs > 0 && sums.inputs.size() == inputs && sums.outputs.size() == outputs,
                 "one sum per row");
  PACELINE_CHECK(scratch.size() >= SkipGramScratchFloats(inputs, outputs, rows.dim), "scratch");
  const Scratch part = Layout(rows, scratch);
  Gather(rows.inputs, rows.dim, part.stride, part.inputs);
  Gather(rows.outputs, rows.dim, part.stride, part.outputs);
  Scores(part, inputs, outputs);
  const double loss = FactorsAndLoss({part.factors, inputs * outputs}, outputs, factor);
  for (std::size_t i = 0; i < inputs; ++i) {
    AddCombination({part.factors + i * outputs, 1, outputs}, part.outputs, part.stride,
                   {sums.inputs[i], rows.dim});
  }
  for (std::size_t o = 0; o < outputs; ++o) {
    AddCombination({part.factors + o, outputs, inputs}, part.inputs, part.stride,
                   {sums.outputs[o], rows.dim});
  }
  return loss;
}

float Dot(std::span<const float> left, std::span<const float> right) {
  PACELINE_CHECK(left.size() == right.size(), "same length");
  Vector sums{};
  std::size_t i = 0;
  for (; i + kFloats <= left.size(); i += kFloats) {
    sums += Load(left.data() + i) * Load(right.data() + i);
  }
  for (std::size_t k = 0; i < left.size(); ++i, ++k) sums[k] += left[i] * right[i];
  return HorizontalSum(sums);
}

void Sigmoid(std::span<float> values) {
  std::size_t i = 0;
  for (; i + kFloats <= values.size(); i += kFloats) {
    Store(values.data() + i, SigmoidOf(Load(values.data() + i)));
  }
  if (i == values.size()) return;
  Vector last{};
  std::memcpy(&last, values.data() + i, (values.size() - i) * sizeof(float));
  last = SigmoidOf(last);
  std::memcpy(values.data() + i, &last, (values.size() - i) * sizeof(float));
}

}  // namespace paceline::kernel

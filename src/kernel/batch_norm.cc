#include "kernel/batch_norm.h"

#include <bit>

#include "base/check.h"

namespace paceline::kernel {

namespace {

constexpr std::size_t kParts = 16;
constexpr std::size_t kFlushAfter =
    1024;  // elements; float sums of 64 terms lose nothing that counts

// Adds plane by plane: interleaved float sums that the compiler keeps in registers, moved into a
// double now and then.
class Accumulator {
 public:
  template <typename Term>
  void AddPlane(std::size_t count, const Term& term) {
    std::size_t i = 0;
    for (; i + kParts <= count; i += kParts) {
      for (std::size_t k = 0; k < kParts; ++k) parts_[k] += term(i + k);
    }
    for (std::size_t k = 0; i < count; ++i, ++k) parts_[k] += term(i);
    added_ += count;
    if (added_ >= kFlushAfter) Flush();
  }

  double Total() {
    Flush();
    return total_;
  }

 private:
  void Flush() {
    for (float& part : parts_) {
      total_ += double{part};
      part = 0;
    }
    added_ = 0;
  }

  float parts_[kParts] = {};
  std::size_t added_ = 0;
  double total_ = 0;
};

// gradient * scale where the mask is 1, else 0; bits instead of a branch.
float Masked(float gradient, std::uint8_t mask, float scale) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(gradient * scale) & (0U - mask));
}

// Calls body(offset) for each plane of a channel.
template <typename Body>
void ForEachPlane(const NormShape& shape, std::size_t channel, const Body& body) {
  for (std::size_t n = 0; n < shape.batch; ++n) body((n * shape.channels + channel) * shape.plane);
}

double ElementCount(const NormShape& shape) {
  return static_cast<double>(shape.batch) * static_cast<double>(shape.plane);
}

}  // namespace

Moments ChannelMoments(const NormShape& shape, std::size_t channel, std::span<const float> input) {
  PACELINE_CHECK(input.size() == shape.Elements(), "the span is the tensor");
  Accumulator sum;
  ForEachPlane(shape, channel, [&](std::size_t offset) {
    const float* x = input.data() + offset;
    sum.AddPlane(shape.plane, [x](std::size_t i) { return x[i]; });
  });
  const auto mean = static_cast<float>(sum.Total() / ElementCount(shape));
  // A second pass: the difference of two large sums would lose the variance of shifted data.
  Accumulator squares;
  ForEachPlane(shape, channel, [&](std::size_t offset) {
    const float* x = input.data() + offset;
    squares.AddPlane(shape.plane, [x, mean](std::size_t i) {
      const float centred = x[i] - mean;
      return centred * centred;
    });
  });
  return {mean, static_cast<float>(squares.Total() / ElementCount(shape))};
}

void NormActivate(const NormShape& shape, std::size_t channel, const ChannelNorm& norm,
                  std::span<const float> input, std::span<std::uint8_t> mask,
                  std::span<float> output) {
  PACELINE_CHECK(input.size() == shape.Elements() && mask.size() == input.size() &&
                     output.size() == input.size(),
                 "the spans are the tensor");
  const float slope = norm.inverse_std * norm.gamma, mean = norm.mean, beta = norm.beta;
  ForEachPlane(shape, channel, [&](std::size_t offset) {
    const float* __restrict x = input.data() + offset;
    std::uint8_t* __restrict m = mask.data() + offset;
    float* __restrict y = output.data() + offset;
    for (std::size_t i = 0; i < shape.plane; ++i) {
      const float value = (x[i] - mean) * slope + beta;
      // Not "value > 0 passes": NaN must pass, or it would be hidden from the NaN policy.
      const std::uint32_t positive = value <= 0.0F ? 0 : 0xFFFFFFFF;
      const std::uint32_t bits = positive & (0U - m[i]);
      y[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value * norm.scale) & bits);
      m[i] = static_cast<std::uint8_t>(bits & 1);
    }
  });
}

NormGradient NormActivateBackward(const NormShape& shape, std::size_t channel,
                                  const ChannelNorm& norm, std::span<const float> input,
                                  std::span<const std::uint8_t> mask,
                                  std::span<const float> output_gradient,
                                  std::span<float> input_gradient) {
  PACELINE_CHECK(input.size() == shape.Elements() && mask.size() == input.size() &&
                     output_gradient.size() == input.size() &&
                     input_gradient.size() == input.size(),
                 "the spans are the tensor");
  const float mean = norm.mean, scale = norm.scale;
  Accumulator sums, centred_sums;
  ForEachPlane(shape, channel, [&](std::size_t offset) {
    const float* x = input.data() + offset;
    const std::uint8_t* m = mask.data() + offset;
    const float* g = output_gradient.data() + offset;
    sums.AddPlane(shape.plane, [=](std::size_t i) { return Masked(g[i], m[i], scale); });
    centred_sums.AddPlane(shape.plane,
                          [=](std::size_t i) { return Masked(g[i], m[i], scale) * (x[i] - mean); });
  });
  const double sum = sums.Total(), sum_centred = centred_sums.Total();
  const double inverse_std = double{norm.inverse_std}, count = ElementCount(shape);
  const float slope = norm.inverse_std * norm.gamma;
  const auto mean_gradient = static_cast<float>(sum / count);
  const auto projection = static_cast<float>(sum_centred * inverse_std * inverse_std / count);
  ForEachPlane(shape, channel, [&](std::size_t offset) {
    const float* __restrict x = input.data() + offset;
    const std::uint8_t* __restrict m = mask.data() + offset;
    const float* __restrict g = output_gradient.data() + offset;
    float* __restrict out = input_gradient.data() + offset;
    for (std::size_t i = 0; i < shape.plane; ++i) {
      out[i] = slope * (Masked(g[i], m[i], scale) - mean_gradient - (x[i] - mean) * projection);
    }
  });
  return {static_cast<float>(sum_centred * inverse_std), static_cast<float>(sum)};
}

}  // namespace paceline::kernel

#include "data/mix_up.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace paceline::data {

namespace {

// Beta(alpha, alpha) after Joehnk, which needs few tries for an alpha up to 1.
double DrawBeta(CounterRng& rng, double alpha) {
  for (;;) {
    const double x = std::pow(double{rng.Uniform()}, 1 / alpha);
    const double y = std::pow(double{rng.Uniform()}, 1 / alpha);
    if (x + y > 0 && x + y <= 1) return x / (x + y);
  }
}

void Mix(std::span<float> a, std::span<float> b, float weight) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float left = a[i], right = b[i];
    a[i] = weight * left + (1 - weight) * right;
    b[i] = weight * right + (1 - weight) * left;
  }
}

// Sources of one's own may give anything.
Status CheckLabelled(std::span<const BatchTensor> tensors, std::size_t count) {
  if (tensors.size() == 2 && tensors[0].type == ElementType::kFloat &&
      tensors[1].type == ElementType::kInt64 && tensors[1].Elements() == count) {
    return {};
  }
  return Status::Error(Code::kInvalidArgument,
                       "--mixup needs samples of two arrays: floats, and one whole number each, "
                       "the label");
}

}  // namespace

Status MixUp::Fill(const FillRequest& request, BatchBuffer& buffer) const {
  std::vector<BatchTensor>& tensors = buffer.batch.tensors;
  tensors.resize(std::min<std::size_t>(2, tensors.size()));  // without those added last time
  PACELINE_TRY(images_->Fill(request, buffer));
  const std::size_t count = request.samples.size();
  if (!request.training || count == 0) return {};
  PACELINE_TRY(CheckLabelled(tensors, count));
  const auto rows = static_cast<std::int64_t>(count);
  PACELINE_ASSIGN(const std::span<std::int64_t> others, buffer.Integers(2, {rows}));
  PACELINE_ASSIGN(const std::span<float> weights, buffer.Floats(3, {rows}));
  CounterRng rng(request.seed, Purpose::kMixUp, request.step.value(), request.samples[0].place);
  const auto weight = static_cast<float>(DrawBeta(rng, alpha_));
  std::ranges::fill(weights, weight);
  std::ranges::reverse_copy(buffer.batch.tensors[1].Integers(), others.begin());
  const std::span<float> pixels = buffer.batch.tensors[0].Floats();
  const std::size_t image = pixels.size() / count;
  for (std::size_t i = 0; i < count / 2; ++i) {
    Mix(pixels.subspan(i * image, image), pixels.subspan((count - 1 - i) * image, image), weight);
  }
  return {};
}

}  // namespace paceline::data

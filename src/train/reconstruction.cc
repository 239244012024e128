#include "train/reconstruction.h"

#include <algorithm>
#include <cmath>

namespace paceline::train {

namespace {

enum ReconstructionSum : std::size_t { kImageLoss, kPsnr, kImages, kImageSums };

constexpr double kLeastError = 1e-10;  // 100 dB: a perfect image must not count as infinite

// Mean squared error of each image.
torch::Tensor Errors(const torch::Tensor& images, const torch::Tensor& wanted) {
  return (images - wanted).square().flatten(1).mean(1);
}

}  // namespace

Loss Reconstruction::Compute(const Tensors& outputs, const Tensors& batch) const {
  const torch::Tensor& wanted = batch[0];
  const auto pixels =
      static_cast<double>(wanted.numel() / std::max<std::int64_t>(1, wanted.size(0)));
  Loss loss;
  loss.sum = torch::mse_loss(outputs[0], wanted, at::Reduction::Sum) / pixels;
  return loss;
}

std::size_t Reconstruction::SumCount() const { return kImageSums; }

void Reconstruction::Count(Network& network, const Tensors& batch, EvalCounts counts) const {
  const torch::Tensor images = network.Forward(batch, ForwardContext{})[0];
  const torch::Tensor losses = Errors(images, batch[0]);
  const torch::Tensor errors = Errors(images.clamp(0, 1), batch[0]);
  const auto loss = losses.accessor<float, 1>(), error = errors.accessor<float, 1>();
  for (std::int64_t i = 0; i < loss.size(0); ++i) {
    counts.sums[kImageLoss] += double{loss[i]};
    counts.sums[kPsnr] -= 10 * std::log10(std::max(kLeastError, double{error[i]}));
    counts.sums[kImages] += 1;
  }
}

std::vector<Metric> Reconstruction::Metrics(std::span<const double> sums,
                                            std::span<const algo::AucAccumulator> /*aucs*/) const {
  const double samples = std::max(1.0, sums[kImages]);
  return {{"loss", sums[kImageLoss] / samples}, {"psnr", sums[kPsnr] / samples}};
}

}  // namespace paceline::train

#include "data/image_batches.h"

#include <array>

namespace paceline::data {

Status ImageBatches::Fill(const FillRequest& request, BatchBuffer& buffer) const {
  constexpr auto kChannels = static_cast<std::int64_t>(kImageShape.channels);
  constexpr auto kHeight = static_cast<std::int64_t>(kImageShape.height);
  constexpr auto kWidth = static_cast<std::int64_t>(kImageShape.width);
  const auto count = static_cast<std::int64_t>(request.samples.size());
  PACELINE_ASSIGN(const std::span<float> images,
                  buffer.Floats(0, {count, kChannels, kHeight, kWidth}));
  PACELINE_ASSIGN(const std::span<std::int64_t> labels, buffer.Integers(1, {count}));
  std::array<std::uint8_t, kImagePixels> image;
  for (std::size_t i = 0; i < request.samples.size(); ++i) {
    if (request.stop.stop_requested()) {
      return Status::Error(Code::kAborted, "the loader is closing");
    }
    const SampleRef& sample = request.samples[i];
    PACELINE_TRY(dataset_->Read(sample.index, image, labels[i]));
    const CropFlip window =
        request.training ? DrawCropFlip(augment_, request.seed, request.step.value(), sample.place)
                         : CropFlip{};
    Normalize(image, window, images.subspan(i * kImagePixels, kImagePixels), pixels_);
  }
  return {};
}

}  // namespace paceline::data

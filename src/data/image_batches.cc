#include "data/image_batches.h"

#include <vector>

namespace paceline::data {

Result<ImageArrays> MakeImageArrays(BatchBuffer& buffer, std::size_t count,
                                    const ImageShape& shape) {
  const auto rows = static_cast<std::int64_t>(count);
  ImageArrays arrays;
  PACELINE_ASSIGN(arrays.images, buffer.Floats(0, {rows, static_cast<std::int64_t>(shape.channels),
                                                   static_cast<std::int64_t>(shape.height),
                                                   static_cast<std::int64_t>(shape.width)}));
  PACELINE_ASSIGN(arrays.labels, buffer.Integers(1, {rows}));
  return arrays;
}

Status ImageBatches::Fill(const FillRequest& request, BatchBuffer& buffer) const {
  const ImageShape shape = dataset_->image_shape();
  PACELINE_ASSIGN(const ImageArrays arrays, MakeImageArrays(buffer, request.samples.size(), shape));
  std::vector<std::uint8_t> image(shape.pixels());
  for (std::size_t i = 0; i < request.samples.size(); ++i) {
    if (request.stop.stop_requested()) {
      return Status::Error(Code::kAborted, "the loader is closing");
    }
    const SampleRef& sample = request.samples[i];
    PACELINE_TRY(dataset_->Read(sample.index, image, arrays.labels[i]));
    const CropFlip window = request.training ? DrawCropFlip(options_.augment, request.seed,
                                                            request.step.value(), sample.place)
                                             : CropFlip{};
    Normalize(image, shape, window, options_.normalization,
              arrays.images.subspan(i * shape.pixels(), shape.pixels()));
  }
  return {};
}

}  // namespace paceline::data

#include "data/photo_batches.h"

#include <fmt/format.h>

#include "data/crop.h"
#include "data/image_batches.h"

namespace paceline::data {

namespace {

// Damage one after the other: rather a broken disk than a broken photograph.
constexpr int kMostBadInRow = 100;

}  // namespace

Status PhotoBatches::Draw(const FillRequest& request, const SampleRef& sample, Workspace& workspace,
                          Target target) const {
  PACELINE_TRY(photos_->Read(sample.index, workspace.bytes, target.label));
  JpegDecoder& decoder = workspace.decoder;
  Crop crop;
  Status decoded = decoder.Open(workspace.bytes);
  if (decoded.ok()) {
    const bool random = request.training && options_.augment != Augment::kNone;
    crop = random ? DrawCrop({request.seed, request.step.value(), sample.place}, decoder.width(),
                             decoder.height())
                  : CentreCrop(decoder.width(), decoder.height());
    decoded = decoder.Decode(crop.box, options_.size, workspace.image);
  }
  if (!decoded.ok()) return decoded.Wrap(photos_->Describe(sample.index));
  workspace.resampler.Run(workspace.image, crop.box, options_.size, crop.flip,
                          options_.normalization, target.image);
  return {};
}

Status PhotoBatches::DrawNextGood(const FillRequest& request, SampleRef sample,
                                  Workspace& workspace, Target target) const {
  for (int bad = 0;; ++bad) {
    Status status = Draw(request, sample, workspace, target);
    if (status.code() != Code::kBadData || options_.policy == BadRecord::kFail) return status;
    if (bad == kMostBadInRow) {
      return status.Wrap(fmt::format("{} bad images one after the other", bad + 1));
    }
    {
      MutexLock lock(mu_);
      bad_.insert(sample.index);
    }
    sample.index = (sample.index + 1) % size();
  }
}

Status PhotoBatches::Fill(const FillRequest& request, BatchBuffer& buffer) const {
  const ImageShape shape{3, options_.size, options_.size};
  PACELINE_ASSIGN(const ImageArrays arrays, MakeImageArrays(buffer, request.samples.size(), shape));
  Workspace workspace;
  for (std::size_t i = 0; i < request.samples.size(); ++i) {
    if (request.stop.stop_requested()) {
      return Status::Error(Code::kAborted, "the loader is closing");
    }
    PACELINE_TRY(DrawNextGood(
        request, request.samples[i], workspace,
        {arrays.images.subspan(i * shape.pixels(), shape.pixels()), arrays.labels[i]}));
  }
  return {};
}

std::uint64_t PhotoBatches::BadRecords() const {
  MutexLock lock(mu_);
  return photos_->BadRecords() + bad_.size();
}

}  // namespace paceline::data

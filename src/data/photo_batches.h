#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "data/augment.h"
#include "data/batch.h"
#include "data/jpeg.h"
#include "data/photos.h"
#include "data/resample.h"

namespace paceline::data {

struct PhotoBatchOptions {
  std::size_t size = 224;                // height and width of what the model sees
  Augment augment = Augment::kStandard;  // of training batches: a random part (crop.h)
  Normalization normalization = kPhotoNormalization;
  BadRecord policy = BadRecord::kFail;
};

// Batches of photographs, decoded and cut to one size: array 0 holds pixels [n, 3, size, size],
// array 1 the labels [n]. Thread-safe.
//
// A file can begin like a JPEG and be damaged all the same; that shows when it is decoded. With
// kSkip the next good sample then stands in its place, so that batches keep their size and every
// worker makes the same ones.
class PhotoBatches final : public BatchSource {
 public:
  PhotoBatches(std::shared_ptr<const Photos> photos, const PhotoBatchOptions& options)
      : photos_(std::move(photos)), options_(options) {}

  std::uint64_t size() const override { return photos_->size(); }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override;
  std::string Fingerprint() const override { return photos_->fingerprint(); }
  // Those that showed when this process decoded them included.
  std::uint64_t BadRecords() const override PACELINE_EXCLUDES(mu_);

 private:
  struct Workspace {
    std::vector<std::byte> bytes;
    JpegDecoder decoder;
    RgbImage image;
    Resampler resampler;
  };
  struct Target {
    std::span<float> image;
    std::int64_t& label;
  };
  Status Draw(const FillRequest& request, const SampleRef& sample, Workspace& workspace,
              Target target) const;
  Status DrawNextGood(const FillRequest& request, SampleRef sample, Workspace& workspace,
                      Target target) const PACELINE_EXCLUDES(mu_);

  std::shared_ptr<const Photos> photos_;
  PhotoBatchOptions options_;
  mutable Mutex mu_;
  mutable std::set<std::uint64_t> bad_ PACELINE_GUARDED_BY(mu_);  // found while decoding
};

}  // namespace paceline::data

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "data/augment.h"
#include "data/batch.h"
#include "data/dataset.h"

namespace paceline::data {

struct ImageBatchOptions {
  Augment augment = Augment::kStandard;  // of training batches
  Normalization normalization = kCifarNormalization;
};

// Batches of images that all have one shape: array 0 holds pixels [n, channels, height, width],
// array 1 the labels [n]. Immutable, thread-safe.
class ImageBatches final : public BatchSource {
 public:
  explicit ImageBatches(std::shared_ptr<const Dataset> dataset,
                        const ImageBatchOptions& options = {})
      : dataset_(std::move(dataset)), options_(options) {}

  std::uint64_t size() const override { return dataset_->size(); }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override;
  std::string Fingerprint() const override { return dataset_->Fingerprint(); }
  std::uint64_t BadRecords() const override { return dataset_->BadRecords(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  ImageBatchOptions options_;
};

// Makes array 0 for `count` images of this shape and array 1 for their labels.
struct ImageArrays {
  std::span<float> images;
  std::span<std::int64_t> labels;
};
Result<ImageArrays> MakeImageArrays(BatchBuffer& buffer, std::size_t count,
                                    const ImageShape& shape);

}  // namespace paceline::data

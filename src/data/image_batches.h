#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/augment.h"
#include "data/batch.h"
#include "data/dataset.h"

namespace paceline::data {

// Batches of small images: array 0 holds pixels [n, channels, height, width], array 1
// the labels [n]. Samples of training batches are augmented. Immutable, thread-safe.
class ImageBatches final : public BatchSource {
 public:
  explicit ImageBatches(std::shared_ptr<const Dataset> dataset,
                        Augment augment = Augment::kStandard,
                        PixelScale pixels = PixelScale::kNormalised)
      : dataset_(std::move(dataset)), augment_(augment), pixels_(pixels) {}

  std::uint64_t size() const override { return dataset_->size(); }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override;
  std::string Fingerprint() const override { return dataset_->Fingerprint(); }
  std::uint64_t BadRecords() const override { return dataset_->BadRecords(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  Augment augment_;
  PixelScale pixels_;
};

}  // namespace paceline::data

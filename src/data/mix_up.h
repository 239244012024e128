#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/batch.h"

namespace paceline::data {

// MixUp (Zhang et al., ICLR 2018) of training batches with labelled images (arrays 0 and 1): sample
// i becomes w times itself and 1 - w times sample n-1-i of its shard, with one w of Beta(alpha,
// alpha) for the shard. Adds array 2, the other one's labels [n], and array 3, w for each sample
// [n]. Held-out batches stay as they are. Immutable, thread-safe.
class MixUp final : public BatchSource {
 public:
  // 0 < alpha <= 1.
  MixUp(std::unique_ptr<BatchSource> images, double alpha)
      : images_(std::move(images)), alpha_(alpha) {}

  std::uint64_t size() const override { return images_->size(); }
  Status Fill(const FillRequest& request, BatchBuffer& buffer) const override;
  std::string Fingerprint() const override { return images_->Fingerprint(); }
  std::uint64_t BadRecords() const override { return images_->BadRecords(); }

 private:
  std::unique_ptr<BatchSource> images_;
  double alpha_;
};

}  // namespace paceline::data

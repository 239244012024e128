#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// What the logits of one prediction say about the class that was right.
struct RowLoss {
  float negative_log = 0;  // -log of its probability
  float smoothed = 0;      // the same with label smoothing: PyTorch's cross_entropy
  bool correct = false;    // no class before it is as likely, none after it more likely
};

struct RowTarget {
  std::size_t right = 0;
  float smoothing = 0;  // share of the target that is spread over all classes
  float weight = 1;     // of the prediction in the loss that is differentiated
};

// Loss of one row of logits.
RowLoss CrossEntropy(std::span<const float> logits, const RowTarget& target);

// The same, and the row becomes weight times the gradient of `smoothed`. One exponential for each
// logit instead of the two of a softmax and its derivative.
RowLoss CrossEntropyGradient(std::span<float> logits, const RowTarget& target);

}  // namespace paceline::kernel

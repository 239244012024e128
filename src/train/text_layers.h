#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "train/dropout.h"

namespace paceline::train {

// Parts that models of text share. Rows of two-dimensional tensors are tokens.

// residual + dropout(values), in one pass.
at::Tensor AddDropout(const at::Tensor& residual, const at::Tensor& values, float probability,
                      const ForwardContext& context, std::uint64_t layer);

// dropout(relu(values)), in one pass; what was dropped or negative is read off the result.
at::Tensor ReluDropout(const at::Tensor& values, float probability, const ForwardContext& context,
                       std::uint64_t layer);

// Rows of a table. Its gradient is sparse: autograd adds the rows to the dense gradient that the
// same table gets as output matrix, instead of making another table. Only for a table that does.
at::Tensor LookUpTied(const at::Tensor& table, const at::Tensor& ids);

// Which word of the vocabulary each row was to predict, and how much each counts.
struct Predictions {
  at::Tensor states;   // [rows, width]
  at::Tensor matrix;   // [vocabulary, width]
  at::Tensor bias;     // [vocabulary], or undefined
  at::Tensor targets;  // [rows] of int64
  at::Tensor weights;  // [rows]; rows of weight 0 are not computed
};

struct VocabularyLoss {
  at::Tensor sum;  // of weight times cross entropy, a scalar
  double correct = 0;
  double rows = 0;  // of weight other than 0
};

// Cross entropy with label smoothing of states * matrix^T + bias, in one function: logits become
// their own gradient in place, and no softmax is kept beside them.
VocabularyLoss CrossEntropyOverVocabulary(const Predictions& predictions, double label_smoothing);

// The same figures without a gradient, and never more than a few rows of logits in memory.
struct VocabularyCounts {
  double weighted_loss = 0;  // weight times -log of the right word's probability
  double weight = 0;
  double loss = 0;  // the same with weight 1
  double correct = 0;
  double rows = 0;
};
VocabularyCounts CountOverVocabulary(const Predictions& predictions);

}  // namespace paceline::train

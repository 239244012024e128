#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/dropout.h"

namespace paceline::train {

// Tokens of each sample of a batch; what follows up to the longest is padding. Never 0.
using Lengths = std::vector<std::int64_t>;

// Of ids [n, longest], where 0 is padding.
Lengths LengthsOf(const at::Tensor& ids);

// Rows of one sample follow each other. Three forms, by which tensors are defined:
//   query [n * T, 3 * width]: queries, keys and values side by side
//   query [n * T, width], key [n * S, 2 * width]: keys and values side by side
//   query [n * T, width], key and value [n * S, width]
struct AttentionInput {
  at::Tensor query, key, value;
  std::int64_t heads = 1;
  bool causal = false;  // query i sees keys 0 .. i only
  Lengths query_lengths, key_lengths;
};

// softmax(queries * keys^T / sqrt(width / heads)), dropout, times values, for each head:
// [n * T, width]. Padding is neither seen nor computed; its rows are 0. Same as PyTorch's
// multi_head_attention_forward between its projections.
at::Tensor Attention(const AttentionInput& input, float probability, const ForwardContext& context,
                     std::uint64_t layer);

}  // namespace paceline::train

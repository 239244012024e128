#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/catalog.h"

namespace paceline::model {

// Encoder and decoder of "Attention is all you need" with normalisation before each part
// (pre-norm), one embedding for source, target and output, sinusoidal positions, no biases in
// attention.
struct TransformerSpec {
  std::int64_t width = 512;
  std::int64_t inner = 2048;
  std::int64_t heads = 8;
  std::int64_t layers = 6;  // of the encoder, and as many of the decoder
  float dropout = 0.1F;
  double label_smoothing = 0.1;
  std::int64_t vocabulary = 32'000;
  std::int64_t max_length = 256;  // word pieces of a sentence
};

// BERT (Devlin et al. 2018) with the heads of its pre-training: masked words, whose output matrix
// is the embedding, and next sentences.
struct BertSpec {
  std::int64_t width = 768;
  std::int64_t inner = 3072;
  std::int64_t heads = 12;
  std::int64_t layers = 12;
  float dropout = 0.1F;
  std::int64_t vocabulary = 30'522;
  std::int64_t max_length = 512;  // positions
};

// By the name of the model; kNotFound when there is none.
Result<TransformerSpec> TransformerSpecByName(std::string_view name);
Result<BertSpec> BertSpecByName(std::string_view name);

// Models of text: each as published, then a small one of the same kind for tests and trials.
std::vector<ModelCard> TextCards();

}  // namespace paceline::model

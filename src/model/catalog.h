#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::model {

struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;

  std::int64_t Elements() const;
};

// What a model's samples are, and with it which program computes it.
enum class Family {
  kImage,           // labelled images; the first four are computed with libtorch
  kCompression,     // images without labels
  kTranslation,     // pairs of sentences
  kMaskedLanguage,  // pairs of sentences of one text, with words left out
  kClick,           // the others have embedding tables: src/sparse
  kWords,
  kMatching,
};
const char* FamilyName(Family family);

// Everything about a model that can be known without running it.
struct ModelCard {
  std::string name;
  Family family = Family::kImage;
  std::string description;
  std::string source;  // where architecture and hyper-parameters come from
  std::vector<std::int64_t> input_shape;
  bool any_image_size = false;  // takes squares of other sizes than input_shape, too
  std::int64_t classes = 0;
  std::int64_t vocabulary =
      0;  // of models of text: word pieces, those with a special sense included
  std::int64_t max_length = 0;         // of models of text: word pieces of one sample
  std::vector<TensorSpec> parameters;  // trainable, in the module's order
  std::int64_t forward_flops = 0;      // of one sample; a multiply-add counts as two

  // Defaults of the source.
  std::int64_t batch = 128;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  // These go with that optimiser; 0: not set.
  double momentum = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  // And these with any; empty or 0: not set.
  std::string lr_schedule;
  std::string lr_decay_at;  // epochs, of schedule "step": "30,60,80"
  std::uint64_t warmup_steps = 0;
  double label_smoothing = 0;

  // Embedding tables and passes written by hand: trains without libtorch.
  bool Fused() const { return family >= Family::kClick; }
  std::int64_t ParameterCount() const;
  std::int64_t TensorCount() const { return static_cast<std::int64_t>(parameters.size()); }
  std::int64_t ParameterBytes() const { return ParameterCount() * 4; }
};

// All models, in the order in which they are shown.
const std::vector<ModelCard>& Catalog();

// kInvalidArgument with the nearest name when there is no such model.
Result<const ModelCard*> FindModel(std::string_view name);

}  // namespace paceline::model

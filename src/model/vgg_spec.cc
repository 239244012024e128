#include "model/vgg_spec.h"

#include <string>

#include <fmt/format.h>

namespace paceline::model {

namespace {

VggSpec MakeVgg16(std::int64_t divide_channels_by, float scale_dropout_by) {
  const auto conv = [&](std::int64_t channels, float dropout) {
    return VggSpec::Conv{channels / divide_channels_by, dropout * scale_dropout_by};
  };
  VggSpec spec;
  spec.groups = {{conv(64, 0.3F), conv(64, 0)},
                 {conv(128, 0.4F), conv(128, 0)},
                 {conv(256, 0.4F), conv(256, 0.4F), conv(256, 0)},
                 {conv(512, 0.4F), conv(512, 0.4F), conv(512, 0)},
                 {conv(512, 0.4F), conv(512, 0.4F), conv(512, 0)}};
  spec.fully_connected = 512 / divide_channels_by;
  spec.classifier_dropout = 0.5F * scale_dropout_by;
  return spec;
}

// Walks the layers in order, numbering them as torch::nn::Sequential would: a layer without
// parameters still takes a number.
class VggCardBuilder {
 public:
  explicit VggCardBuilder(ModelCard& card) : card_(card) {}

  void Enter(std::string section) {
    section_ = std::move(section);
    layer_ = 0;
  }
  void Skip(int layers) { layer_ += layers; }

  void Conv3x3(std::int64_t in, std::int64_t out, std::int64_t size) {
    AddPair({out, in, 3, 3}, out);
    card_.forward_flops += 2 * 9 * in * out * size * size;
  }
  void Norm(std::int64_t channels) { AddPair({channels}, channels); }
  void Linear(std::int64_t in, std::int64_t out) {
    AddPair({out, in}, out);
    card_.forward_flops += 2 * in * out;
  }

 private:
  void AddPair(std::vector<std::int64_t> weight, std::int64_t bias) {
    card_.parameters.push_back({fmt::format("{}.{}.weight", section_, layer_), std::move(weight)});
    card_.parameters.push_back({fmt::format("{}.{}.bias", section_, layer_), {bias}});
    ++layer_;
  }

  ModelCard& card_;
  std::string section_;
  int layer_ = 0;
};

}  // namespace

Result<VggSpec> VggSpecByName(std::string_view name) {
  if (name == "vgg16") return MakeVgg16(1, 1.0F);
  // Narrow layers cannot afford the reference's dropout: with it they learn next to nothing.
  if (name == "vgg16-small") return MakeVgg16(8, 0.25F);
  return Status::Error(Code::kNotFound, fmt::format("no VGG named '{}'", name));
}

ModelCard MakeVggCard(std::string_view name) {
  const VggSpec spec = VggSpecByName(name).value();
  ModelCard card;
  card.name = name;
  card.input_shape = {3, spec.image_size, spec.image_size};
  card.classes = spec.classes;
  VggCardBuilder build(card);
  build.Enter("features");
  std::int64_t channels = 3, size = spec.image_size;
  for (const auto& group : spec.groups) {
    for (const VggSpec::Conv& conv : group) {
      build.Conv3x3(channels, conv.channels, size);
      build.Norm(conv.channels);
      build.Skip(conv.dropout > 0 ? 2 : 1);  // ReLU, dropout
      channels = conv.channels;
    }
    build.Skip(1);  // pool
    size /= 2;
  }
  build.Enter("classifier");
  build.Skip(1);  // dropout
  build.Linear(channels * size * size, spec.fully_connected);
  build.Norm(spec.fully_connected);
  build.Skip(2);  // ReLU, dropout
  build.Linear(spec.fully_connected, spec.fully_connected);
  build.Linear(spec.fully_connected, spec.classes);
  return card;
}

}  // namespace paceline::model

#include "model/cnn_graphs.h"

#include <array>
#include <span>
#include <string>

#include <fmt/format.h>

namespace paceline::model {

namespace {

constexpr ImageSize kCifar{3, 32, 32};
constexpr ImageSize kImageNet{3, 224, 224};

enum class Stem { kSevenBySeven, kThreeByThree };  // the second keeps the size, for small models
enum class StrideAt { kFirstConv, kMiddleConv };   // He et al. and Keras, or torchvision

struct ResNetSpec {
  ImageSize input = kCifar;
  std::int64_t classes = 10;
  std::int64_t width = 64;  // of the first stage; the others double it
  std::array<int, 4> blocks{3, 4, 6, 3};
  Stem stem = Stem::kSevenBySeven;
  StrideAt stride_at = StrideAt::kFirstConv;
  bool bias = true;
  std::int64_t excite_ratio = 0;  // of squeeze-excite; 0: none
};

// One bottleneck of He et al. 2015. The shortcut comes first, so that every batch norm follows its
// convolution.
ValueId Bottleneck(GraphBuilder& build, const ResNetSpec& spec, const std::string& name,
                   ValueId input, std::int64_t width, std::int64_t stride) {
  constexpr std::int64_t kExpansion = 4;
  const bool first = spec.stride_at == StrideAt::kFirstConv;
  const auto conv = [&](ValueId value, const std::string& of, std::int64_t channels,
                        const ConvSpec& shape) {
    return build.Conv(value, name + of, channels, shape);
  };
  const auto wide = ConvSpec{.kernel = 1, .bias = spec.bias};
  ValueId shortcut = input;
  if (stride != 1 || build.ChannelsOf(input) != kExpansion * width) {
    shortcut = conv(input, ".downsample.0", kExpansion * width,
                    {.kernel = 1, .stride = stride, .bias = spec.bias});
    shortcut = build.Norm(shortcut, name + ".downsample.1", Activation::kNone);
  }
  ValueId x =
      conv(input, ".conv1", width, {.kernel = 1, .stride = first ? stride : 1, .bias = spec.bias});
  x = build.Norm(x, name + ".bn1", Activation::kRelu);
  x = conv(x, ".conv2", width, {.kernel = 3, .stride = first ? 1 : stride, .bias = spec.bias});
  x = build.Norm(x, name + ".bn2", Activation::kRelu);
  x = conv(x, ".conv3", kExpansion * width, wide);
  if (spec.excite_ratio == 0) return build.Norm(x, name + ".bn3", Activation::kRelu, shortcut);
  x = build.Norm(x, name + ".bn3", Activation::kNone);
  return build.SqueezeExcite(x, name + ".se", kExpansion * width / spec.excite_ratio, shortcut);
}

LayerGraph ResNet(const ResNetSpec& spec) {
  GraphBuilder build(spec.input);
  const bool large = spec.stem == Stem::kSevenBySeven;
  ValueId x = build.Conv(0, "conv1", spec.width,
                         {.kernel = large ? 7 : 3, .stride = large ? 2 : 1, .bias = spec.bias});
  x = build.Norm(x, "bn1", Activation::kRelu);
  if (large) x = build.MaxPool(x, 3, 2, 1);
  std::int64_t width = spec.width;
  for (std::size_t stage = 0; stage < spec.blocks.size(); ++stage, width *= 2) {
    for (int block = 0; block < spec.blocks[stage]; ++block) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, block);
      x = Bottleneck(build, spec, name, x, width, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  build.Linear(build.MeanPool(x), "fc", spec.classes);
  return build.Take();
}

LayerGraph ResNetImageNet(std::int64_t excite_ratio) {
  return ResNet({.input = kImageNet,
                 .classes = 1000,
                 .stride_at = StrideAt::kMiddleConv,
                 .bias = false,
                 .excite_ratio = excite_ratio});
}

LayerGraph ResNetSmall(std::int64_t excite_ratio) {
  return ResNet({.width = 8,
                 .blocks = {1, 1, 1, 1},
                 .stem = Stem::kThreeByThree,
                 .excite_ratio = excite_ratio});
}

struct MobileStage {
  std::int64_t expansion, channels;
  int blocks;
  std::int64_t stride;
};

struct MobileNetSpec {
  std::int64_t stem = 32, last = 1280;
  std::int64_t stem_stride = 2;
  float dropout = 0.2F;
  std::span<const MobileStage> stages;
};

// Sandler et al. 2018, table 2.
constexpr std::array<MobileStage, 7> kMobileNetV2{{{1, 16, 1, 1},
                                                   {6, 24, 2, 2},
                                                   {6, 32, 3, 2},
                                                   {6, 64, 4, 2},
                                                   {6, 96, 3, 1},
                                                   {6, 160, 3, 2},
                                                   {6, 320, 1, 1}}};
constexpr std::array<MobileStage, 3> kMobileNetV2Small{
    {{1, 8, 1, 1}, {4, 16, 2, 2}, {4, 24, 2, 2}}};

// A linear bottleneck with an inverted residual. Layers are numbered as torchvision's Sequentials.
ValueId InvertedResidual(GraphBuilder& build, const std::string& name, ValueId input,
                         const MobileStage& stage, std::int64_t stride) {
  const std::int64_t hidden = build.ChannelsOf(input) * stage.expansion;
  ValueId x = input;
  int number = 0;
  if (stage.expansion != 1) {
    x = build.Conv(x, fmt::format("{}.conv.{}.0", name, number), hidden,
                   {.kernel = 1, .bias = false});
    x = build.Norm(x, fmt::format("{}.conv.{}.1", name, number++), Activation::kRelu6);
  }
  x = build.Conv(x, fmt::format("{}.conv.{}.0", name, number), hidden,
                 {.kernel = 3, .stride = stride, .groups = hidden, .bias = false});
  x = build.Norm(x, fmt::format("{}.conv.{}.1", name, number++), Activation::kRelu6);
  x = build.Conv(x, fmt::format("{}.conv.{}", name, number++), stage.channels,
                 {.kernel = 1, .bias = false});
  const bool same = stride == 1 && build.ChannelsOf(input) == stage.channels;
  return build.Norm(x, fmt::format("{}.conv.{}", name, number), Activation::kNone,
                    same ? input : 0);
}

LayerGraph MobileNetV2(const MobileNetSpec& spec) {
  GraphBuilder build(kCifar);
  ValueId x = build.Conv(0, "features.0.0", spec.stem,
                         {.kernel = 3, .stride = spec.stem_stride, .bias = false});
  x = build.Norm(x, "features.0.1", Activation::kRelu6);
  int number = 1;
  for (const MobileStage& stage : spec.stages) {
    for (int block = 0; block < stage.blocks; ++block) {
      x = InvertedResidual(build, fmt::format("features.{}", number++), x, stage,
                           block == 0 ? stage.stride : 1);
    }
  }
  x = build.Conv(x, fmt::format("features.{}.0", number), spec.last, {.kernel = 1, .bias = false});
  x = build.Norm(x, fmt::format("features.{}.1", number), Activation::kRelu6);
  x = build.MeanPool(x);
  if (spec.dropout > 0) x = build.Dropout(x, spec.dropout);
  build.Linear(x, "classifier.1", 10);
  return build.Take();
}

struct PlainVggSpec {
  ImageSize input;
  std::int64_t classes;
  std::int64_t divide_by;  // channels and fully connected layers
  float dropout;
};

// Simonyan and Zisserman 2014, configuration D, numbered as torchvision's.
LayerGraph PlainVgg16(const PlainVggSpec& spec) {
  constexpr std::array<std::array<std::int64_t, 2>, 5> kGroups{
      {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}};
  GraphBuilder build(spec.input);
  ValueId x = 0;
  int number = 0;
  for (const auto& [channels, convolutions] : kGroups) {
    for (std::int64_t i = 0; i < convolutions; ++i, number += 2) {
      x = build.Conv(x, fmt::format("features.{}", number), channels / spec.divide_by, {},
                     Activation::kRelu);
    }
    x = build.MaxPool(x, 2, 2, 0);
    ++number;
  }
  x = build.Flatten(x);
  for (const char* name : {"classifier.0", "classifier.3"}) {
    x = build.Linear(x, name, 4096 / spec.divide_by, Activation::kRelu);
    if (spec.dropout > 0) x = build.Dropout(x, spec.dropout);
  }
  build.Linear(x, "classifier.6", spec.classes);
  return build.Take();
}

struct CodecLayer {
  std::int64_t channels, stride;
};

// Convolutions down to the code, transposed convolutions back up; the last one has no activation.
LayerGraph Compression(const ImageSize& input, std::span<const CodecLayer> encoder,
                       std::span<const CodecLayer> decoder) {
  GraphBuilder build(input);
  ValueId x = 0;
  for (std::size_t i = 0; i < encoder.size(); ++i) {
    x = build.Conv(x, fmt::format("encoder.{}", i), encoder[i].channels,
                   {.stride = encoder[i].stride}, Activation::kRelu);
  }
  for (std::size_t i = 0; i < decoder.size(); ++i) {
    const bool last = i + 1 == decoder.size();
    x = build.TransposedConv(x, fmt::format("decoder.{}", i), decoder[i].channels,
                             decoder[i].stride, last ? Activation::kNone : Activation::kRelu);
  }
  return build.Take();
}

// The original is not published; these widths give its number of parameters and tensors.
constexpr std::array<CodecLayer, 7> kEncoder{
    {{16, 2}, {128, 2}, {256, 2}, {512, 2}, {512, 1}, {512, 1}, {512, 1}}};
constexpr std::array<CodecLayer, 10> kDecoder{
    {{256, 1}, {256, 2}, {256, 1}, {64, 2}, {64, 1}, {64, 2}, {64, 1}, {64, 2}, {16, 1}, {3, 1}}};
constexpr std::array<CodecLayer, 3> kSmallEncoder{{{16, 2}, {32, 2}, {32, 1}}};
constexpr std::array<CodecLayer, 3> kSmallDecoder{{{32, 2}, {16, 2}, {3, 1}}};

struct NamedGraph {
  std::string_view name;
  LayerGraph (*make)();
};

constexpr std::array<NamedGraph, 12> kGraphs{{
    {"resnet50", [] { return ResNet({}); }},
    {"resnet50-small", [] { return ResNetSmall(0); }},
    {"resnet50-imagenet", [] { return ResNetImageNet(0); }},
    {"se-resnet50",
     [] {
       return ResNet({.stride_at = StrideAt::kMiddleConv, .bias = false, .excite_ratio = 16});
     }},
    {"se-resnet50-small", [] { return ResNetSmall(4); }},
    {"se-resnet50-imagenet", [] { return ResNetImageNet(16); }},
    {"mobilenet-v2", [] { return MobileNetV2({.stages = kMobileNetV2}); }},
    {"mobilenet-v2-small",
     [] {
       return MobileNetV2(
           {.stem = 16, .last = 96, .stem_stride = 1, .dropout = 0, .stages = kMobileNetV2Small});
     }},
    {"vgg16-imagenet",
     [] {
       return PlainVgg16({kImageNet, 1000, 1, 0.5F});
     }},
    {"vgg16-imagenet-small",
     [] {
       return PlainVgg16({kCifar, 10, 8, 0});
     }},
    {"image-compression",
     [] {
       return Compression({3, 256, 256}, kEncoder, kDecoder);
     }},
    {"image-compression-small", [] { return Compression(kCifar, kSmallEncoder, kSmallDecoder); }},
}};

}  // namespace

Result<LayerGraph> CnnGraph(std::string_view name) {
  for (const NamedGraph& graph : kGraphs) {
    if (graph.name == name) return graph.make();
  }
  return Status::Error(Code::kNotFound, fmt::format("no convolutional model named '{}'", name));
}

}  // namespace paceline::model

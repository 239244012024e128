#include "model/cnn_cards.h"

#include <utility>

#include "model/cnn_graphs.h"

namespace paceline::model {

namespace {

ModelCard MakeCard(ModelCard card) {
  const LayerGraph graph = CnnGraph(card.name).value();
  card.input_shape = {graph.input.channels, graph.input.height, graph.input.width};
  card.any_image_size = graph.TakesAnySize();
  const bool image = card.family == Family::kImage;
  card.classes = image ? graph.layers.back().out.channels : 0;
  for (const Layer& layer : graph.layers) {
    for (TensorSpec& tensor : layer.Parameters()) card.parameters.push_back(std::move(tensor));
    card.forward_flops += layer.ForwardFlops();
  }
  return card;
}

ModelCard Small(const char* name, const char* description) {
  ModelCard card;
  card.name = name;
  card.description = description;
  card.source = "Paceline";
  card.batch = 64;
  return card;
}

// Of all models for ImageNet in FleetX's train_with_fleet.py.
void SetFleetRecipe(ModelCard& card, double learning_rate) {
  card.batch = 32;
  card.optimizer = "sgd";
  card.learning_rate = learning_rate;
  card.momentum = 0.9;
  card.weight_decay = 1e-4;
  card.lr_schedule = "step";
  card.lr_decay_at = "30,60,80";
}

ModelCard ResNet50() {
  ModelCard card;
  card.name = "resnet50";
  card.description = "ResNet50 for 32x32 images, convolutions with bias";
  card.source =
      "ElasticDL FTlib benchmark (Keras ResNet50, version 1, CIFAR-10, batch 64); He et al. 2015";
  card.batch = 64;
  return card;
}

ModelCard ResNet50ImageNet() {
  ModelCard card;
  card.name = "resnet50-imagenet";
  card.description = "ResNet50 for 224x224 images and 1000 classes";
  card.source =
      "torchvision resnet50 (stride in the 3x3 convolutions, no bias); PaddlePaddle FleetX "
      "deprecated/benchmark/collective/resnet (SGD 0.1, momentum 0.9, weight decay 1e-4, batch 32, "
      "rate divided by 10 after 30, 60 and 80 epochs)";
  SetFleetRecipe(card, 0.1);
  return card;
}

ModelCard SeResNet50() {
  ModelCard card;
  card.name = "se-resnet50";
  card.description = "ResNet50 with squeeze-excite blocks for 32x32 images";
  card.source = "Hu et al. 2018 (ratio 16); se-resnet50-imagenet with the data of resnet50";
  card.batch = 64;
  return card;
}

ModelCard SeResNet50ImageNet() {
  ModelCard card = ResNet50ImageNet();
  card.name = "se-resnet50-imagenet";
  card.description = "ResNet50 with squeeze-excite blocks for 224x224 images and 1000 classes";
  card.source =
      "PaddlePaddle FleetX (SE-ResNet50); Hu et al. 2018 (ratio 16, 7x7 stem); recipe of "
      "resnet50-imagenet";
  return card;
}

ModelCard MobileNetV2() {
  ModelCard card;
  card.name = "mobilenet-v2";
  card.description = "MobileNetV2 for 32x32 images";
  card.source =
      "ElasticDL FTlib benchmark (Keras MobileNetV2, CIFAR-10, batch 64); Sandler et al. 2018";
  card.batch = 64;
  return card;
}

ModelCard Vgg16ImageNet() {
  ModelCard card;
  card.name = "vgg16-imagenet";
  card.description = "VGG16 without batch norm, fc 4096, for 224x224 images and 1000 classes";
  card.source =
      "PaddlePaddle FleetX deprecated/benchmark/collective/resnet (VGG16, SGD 0.01, momentum 0.9, "
      "weight decay 1e-4, batch 32, rate divided by 10 after 30, 60 and 80 epochs)";
  SetFleetRecipe(card, 0.01);
  return card;
}

ModelCard ImageCompression() {
  ModelCard card;
  card.name = "image-compression";
  card.family = Family::kCompression;
  card.description = "compression of 256x256 images, convolutions down and transposed ones up";
  card.source =
      "a stand-in: the model of ElasticDL's FTlib benchmark was never published; this one has its "
      "numbers of parameters and tensors, its input and its batch of 64";
  card.batch = 64;
  card.learning_rate = 1e-4;
  return card;
}

ModelCard ImageCompressionSmall() {
  ModelCard card = Small("image-compression-small",
                         "compression of 32x32 images with 6 layers, for tests and trials");
  card.family = Family::kCompression;
  card.learning_rate = 2e-3;
  return card;
}

}  // namespace

std::vector<ModelCard> CnnCards() {
  std::vector<ModelCard> cards;
  for (ModelCard& card : std::vector<ModelCard>{
           ResNet50(), Small("resnet50-small", "resnet50 with one narrow block a stage"),
           ResNet50ImageNet(), SeResNet50(),
           Small("se-resnet50-small", "se-resnet50 with one narrow block a stage"),
           SeResNet50ImageNet(), MobileNetV2(),
           Small("mobilenet-v2-small", "mobilenet-v2 with three narrow stages"), Vgg16ImageNet(),
           Small("vgg16-imagenet-small",
                 "vgg16-imagenet with an eighth of the channels for 32x32 images"),
           ImageCompression(), ImageCompressionSmall()}) {
    cards.push_back(MakeCard(std::move(card)));
  }
  return cards;
}

}  // namespace paceline::model

#include "model/sparse_cards.h"

#include <fmt/format.h>

namespace paceline::model {

namespace {

struct CtrSizes {
  std::int64_t ids = 1'000'001;
  std::int64_t dim = 10;
  std::int64_t width = 400;
};

ModelCard CtrDnn(const CtrSizes& sizes) {
  constexpr std::int64_t kDense = 13, kSlots = 26, kClasses = 2, kHidden = 3;
  ModelCard card;
  card.name = "ctr-dnn";
  card.family = Family::kClick;
  card.description = "click prediction: 26 categories in one table, 13 numbers, 400-400-400";
  card.source =
      "PaddlePaddle FleetX deprecated/benchmark/ps/ctr (Criteo, async, Adagrad 1e-2, batch 100)";
  card.input_shape = {kDense + kSlots};
  card.classes = kClasses;
  card.parameters = {{"embedding", {sizes.ids, sizes.dim}}};
  std::int64_t inputs = kDense + kSlots * sizes.dim;
  for (std::int64_t layer = 0; layer <= kHidden; ++layer) {
    const std::int64_t outputs = layer == kHidden ? kClasses : sizes.width;
    const std::string name = layer == kHidden ? "output" : fmt::format("hidden{}", layer + 1);
    card.parameters.push_back({name + ".weight", {inputs, outputs}});
    card.parameters.push_back({name + ".bias", {outputs}});
    card.forward_flops += 2 * inputs * outputs;
    inputs = outputs;
  }
  card.batch = 100;
  card.optimizer = "adagrad";
  card.learning_rate = 1e-2;
  return card;
}

ModelCard CtrDnnSmall() {
  ModelCard card = CtrDnn({.ids = 1001, .dim = 4, .width = 32});
  card.name = "ctr-dnn-small";
  card.description = "ctr-dnn with 1001 ids and layers of 32, for tests and trials";
  card.source = "Paceline";
  card.learning_rate = 0.05;
  return card;
}

// `words` of the vocabulary.
ModelCard Word2Vec(std::int64_t words, std::int64_t dim) {
  // A sentence of the one-billion-word benchmark has 26 words on average; the mean window is 3.5
  // words to each side, and each pair is compared with a word and 5 negatives.
  constexpr std::int64_t kSentence = 26, kPairs = 7, kOutputs = 6;
  ModelCard card;
  card.name = "word2vec";
  card.family = Family::kWords;
  card.description = "skip-gram, window 5, 5 negatives; a sample is a sentence";
  card.source =
      "PaddlePaddle FleetX deprecated/benchmark/ps/distribute_word2vec (one billion words, SGD 1.0 "
      "on means of 100)";
  card.parameters = {{"input", {words, dim}}, {"output", {words, dim}}};
  card.forward_flops = kSentence * kPairs * kOutputs * 2 * dim;
  card.batch = 100;
  card.optimizer = "sgd";
  card.learning_rate = 1;
  return card;
}

ModelCard Word2VecSmall() {
  ModelCard card = Word2Vec(440, 16);
  card.name = "word2vec-small";
  card.description = "word2vec with 16 instead of 300 floats a word, for tests and trials";
  card.source = "Paceline";
  card.batch = 10;
  card.learning_rate = 0.1;
  return card;
}

ModelCard SimnetBow(std::int64_t words, std::int64_t width) {
  ModelCard card;
  card.name = "simnet-bow";
  card.family = Family::kMatching;
  card.description = "matching of queries and titles as bags of words, cosine of 128 floats";
  card.source =
      "PaddlePaddle FleetX deprecated/benchmark/ps/semantic_matching (SGD 1e-4, batch 128; tables "
      "640 times, layers 200 times faster)";
  card.parameters = {{"embedding", {words, width}},
                     {"query.weights", {width, width}},
                     {"query.bias", {width}},
                     {"title.weights", {width, width}},
                     {"title.bias", {width}}};
  constexpr std::int64_t kTexts = 3;  // a query and two titles
  card.forward_flops = kTexts * 2 * width * width;
  card.batch = 128;
  card.optimizer = "sgd";
  card.learning_rate = 1e-4;
  return card;
}

ModelCard SimnetBowSmall() {
  ModelCard card = SimnetBow(500, 16);
  card.name = "simnet-bow-small";
  card.description = "simnet-bow with 16 floats a word, for tests and trials";
  card.source = "Paceline";
  card.batch = 64;
  card.learning_rate = 1e-2;
  return card;
}

}  // namespace

std::vector<ModelCard> SparseCards() {
  return {CtrDnn({}),
          CtrDnnSmall(),
          Word2Vec(354'051, 300),
          Word2VecSmall(),
          SimnetBow(1'451'594, 128),
          SimnetBowSmall()};
}

}  // namespace paceline::model

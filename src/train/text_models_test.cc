// The text models against PyTorch's own layers (text_reference.py), and what must hold of any such
// model: nothing sees the future, nothing sees padding, a step repeats bit by bit.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "base/subprocess.h"
#include "model/catalog.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "train/bert.h"
#include "train/parameters.h"
#include "train/text_objectives.h"
#include "train/torch_guard.h"
#include "train/transformer.h"
#include "train/zoo.h"

namespace paceline::train {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr std::int64_t kVocabulary = 512;

// As in text_reference.py; it repeats itself.
torch::Tensor Pattern(std::int64_t count, std::int64_t salt, double scale) {
  constexpr std::int64_t kPeriod = 1009;
  const torch::Tensor k = torch::arange(kPeriod, torch::kLong);
  const torch::Tensor once =
      (((k * 7919 + salt * 101) % kPeriod).to(torch::kDouble) / kPeriod - 0.5)
          .mul(scale)
          .to(torch::kFloat);
  return once.repeat({count / kPeriod + 1}).narrow(0, 0, count);
}

torch::Tensor Tokens(std::int64_t columns, const std::vector<std::int64_t>& lengths,
                     std::int64_t salt, std::int64_t vocabulary = kVocabulary) {
  const auto rows = static_cast<std::int64_t>(lengths.size());
  const torch::Tensor k = torch::arange(rows * columns).reshape({rows, columns});
  const torch::Tensor ids = (k * 37 + salt * 11) % (vocabulary - 4) + 4;
  return ids * (torch::arange(columns) < torch::tensor(lengths).reshape({-1, 1}));
}

Tensors TranslationBatch(std::int64_t vocabulary = kVocabulary) {
  const std::vector<std::int64_t> lengths{6, 3, 1};
  const torch::Tensor outputs = Tokens(6, lengths, 3, vocabulary);
  return {Tokens(7, {7, 4, 5}, 1, vocabulary), Tokens(6, lengths, 2, vocabulary), outputs,
          outputs.ne(0) / torch::tensor(lengths).reshape({-1, 1})};
}

Tensors MaskedBatch(std::int64_t vocabulary = kVocabulary) {
  const torch::Tensor places = torch::tensor({1, 6, 9, 17, 20}, torch::kLong);
  return {Tokens(8, {8, 5, 6}, 1, vocabulary),
          (torch::arange(8) > 3).to(torch::kLong).expand({3, -1}),
          places,
          (places * 31 + 5) % vocabulary,
          torch::tensor({0.5F, 0.5F, 1.0F, 0.5F, 0.5F}),
          torch::tensor({1, 0, 1}, torch::kLong)};
}

// Without dropout, which no other library could repeat.
BuiltModel WithoutDropout(const model::ModelCard& card) {
  if (card.family == model::Family::kTranslation) {
    model::TransformerSpec spec = model::TransformerSpecByName(card.name).value();
    spec.dropout = 0;
    return {std::make_shared<Transformer>(spec, card, 1),
            std::make_shared<Translation>(card.label_smoothing)};
  }
  model::BertSpec spec = model::BertSpecByName(card.name).value();
  spec.dropout = 0;
  return {std::make_shared<Bert>(spec, card, 1), std::make_shared<MaskedLanguage>()};
}

BuiltModel Patterned(const model::ModelCard& card) {
  BuiltModel model = WithoutDropout(card);
  const double scale = 2.4 / std::sqrt(model.network->parameters()[0].size(1));
  const torch::NoGradGuard no_grad;
  std::int64_t number = 0;
  for (const auto& item : model.network->named_parameters()) {
    torch::Tensor parameter = item.value();
    parameter.copy_(Pattern(parameter.numel(), number++, scale).reshape(parameter.sizes()));
    const bool norm = item.key().find("norm") != std::string::npos ||
                      item.key().find("Norm") != std::string::npos;
    if (norm && item.key().ends_with("weight")) parameter.add_(1);
  }
  return model;
}

Loss LossOf(const BuiltModel& model, const Tensors& batch, const ForwardContext& context = {}) {
  return model.objective->Compute(model.network->Forward(batch, context), batch);
}

using ReferenceLines = std::vector<std::pair<std::string, std::vector<double>>>;

ReferenceLines ParseReference(const std::string& text) {
  ReferenceLines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    auto& [name, values] = lines.emplace_back();
    words >> name;
    for (double value = 0; words >> value;) values.push_back(value);
  }
  return lines;
}

// What the script printed, line by line; nothing when Python has no torch. It takes minutes for the
// largest models: of these, what it once printed is kept in a file.
ReferenceLines Reference(const std::string& model) {
  constexpr int kNoTorch = 77;
  const std::chrono::minutes patience(3);
  const std::filesystem::path script = PACELINE_TEXT_REFERENCE;
  const std::filesystem::path kept = script.parent_path() / "reference" / (model + ".txt");
  if (std::filesystem::exists(kept)) return ParseReference(testing::ReadFile(kept));
  auto process = Subprocess::Start({.argv = {"/usr/bin/python3", script.string(), model}});
  EXPECT_THAT(process, IsOk());
  const auto output = process->ReadAll(patience);
  EXPECT_THAT(output, IsOk());
  const int code = process->Wait(patience)->code;
  EXPECT_TRUE(code == 0 || code == kNoTorch) << output->err;
  return ParseReference(output->out);
}

class TextAgainstPyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(TextAgainstPyTorch, LossAndGradientsAreTheSame) {
  const model::ModelCard& card = **model::FindModel(GetParam());
  const auto reference = Reference(card.name);
  if (reference.empty()) GTEST_SKIP() << "/usr/bin/python3 has no torch: package python3-torch";
  const BuiltModel model = Patterned(card);
  const Tensors batch = card.family == model::Family::kTranslation
                            ? TranslationBatch(card.vocabulary)
                            : MaskedBatch(card.vocabulary);
  const Loss loss = LossOf(model, batch, {.training = true});
  loss.sum.backward();
  EXPECT_NEAR(loss.sum.item<double>(), reference[0].second[0], 1e-4 * reference[0].second[0]);
  const auto parameters = model.network->named_parameters();
  ASSERT_EQ(parameters.size() + 1, reference.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [key, values] = reference[i + 1];
    ASSERT_EQ(parameters[i].key(), key);
    ASSERT_TRUE(parameters[i].value().grad().defined()) << key;
    const torch::Tensor flat = parameters[i].value().grad().to(torch::kDouble).flatten();
    const double weighted =
        (flat * Pattern(flat.numel(), 77, 1.0).to(torch::kDouble)).sum().item<double>();
    // The norm says how large a gradient is; of keys' biases, which softmax ignores, it is 0.
    const double tolerance = 1e-3 * values[1] + 1e-5;
    EXPECT_NEAR(weighted, values[0], 3 * tolerance) << key;  // errors of all elements together
    EXPECT_NEAR(flat.norm().item<double>(), values[1], tolerance) << key;
    EXPECT_NEAR(flat[0].item<double>(), values[2], tolerance) << key;
    EXPECT_NEAR(flat[-1].item<double>(), values[3], tolerance) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TextAgainstPyTorch,
                         ::testing::Values("transformer-small", "transformer-big", "bert-small",
                                           "bert-large"));

TEST(TextModels, HaveExactlyTheTensorsOfTheirCards) {
  for (const char* name : {"transformer-small", "transformer-base", "transformer-big", "bert-small",
                           "bert-base", "bert-large"}) {
    const model::ModelCard& card = **model::FindModel(name);
    const auto model = BuildModel(name, 1);
    ASSERT_THAT(model, IsOk());
    const auto parameters = model->network->named_parameters();
    ASSERT_EQ(parameters.size(), card.parameters.size()) << name;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(parameters[i].key(), card.parameters[i].name);
      EXPECT_EQ(parameters[i].value().sizes().vec(), card.parameters[i].shape);
    }
    EXPECT_TRUE(model->network->buffers().empty()) << name;  // positions are no state
  }
}

TEST(TextModels, StartWithTheLossOfGuessing) {
  const double guess = std::log(kVocabulary);
  const BuiltModel transformer = BuildModel("transformer-small", 3).value();
  EXPECT_NEAR(LossOf(transformer, TranslationBatch()).sum.item<double>() / 3, guess, 1.5);
  const BuiltModel bert = BuildModel("bert-small", 3).value();
  EXPECT_NEAR(LossOf(bert, MaskedBatch()).sum.item<double>() / 3, guess + std::log(2), 0.5);
}

TEST(Transformer, NoWordSeesALaterOne) {
  const torch::NoGradGuard no_grad;
  const BuiltModel model = BuildModel("transformer-small", 3).value();
  Tensors batch = TranslationBatch();
  const auto states = [&] { return model.network->Forward(batch, {})[0].view({3, 6, -1}).clone(); };
  const torch::Tensor before = states();
  batch[1] = batch[1].clone();
  batch[1].index_put_({0, 3}, 400);
  const torch::Tensor after = states();
  EXPECT_TRUE(torch::equal(before[0].narrow(0, 0, 3), after[0].narrow(0, 0, 3)));
  EXPECT_FALSE(torch::allclose(before[0][3], after[0][3]));
  EXPECT_FALSE(torch::allclose(before[0][5], after[0][5]));
  EXPECT_TRUE(torch::equal(before[1], after[1]));
}

// The same samples beside a longer one, and alone.
TEST(TextModels, PaddingChangesNoLoss) {
  const torch::NoGradGuard no_grad;
  const BuiltModel transformer = BuildModel("transformer-small", 3).value();
  const Tensors padded = TranslationBatch();
  double alone = 0;
  const std::int64_t sources[] = {7, 4, 5}, targets[] = {6, 3, 1};
  for (std::int64_t i = 0; i < 3; ++i) {
    Tensors one;
    for (std::size_t t = 0; t < padded.size(); ++t) {
      const std::int64_t length = t == 0 ? sources[i] : targets[i];
      one.push_back(padded[t].narrow(0, i, 1).narrow(1, 0, length).contiguous());
    }
    alone += LossOf(transformer, one).sum.item<double>();
  }
  EXPECT_NEAR(LossOf(transformer, padded).sum.item<double>(), alone, 1e-4);

  const BuiltModel bert = BuildModel("bert-small", 3).value();
  Tensors masked = MaskedBatch();
  const double before = LossOf(bert, masked).sum.item<double>();
  for (const std::size_t t : {0U, 1U}) masked[t] = torch::constant_pad_nd(masked[t], {0, 3});
  masked[2] = masked[2] + torch::floor_divide(masked[2], 8) * 3;  // rows are 11 long now
  EXPECT_NEAR(LossOf(bert, masked).sum.item<double>(), before, 1e-4);
}

// With dropout, which the small models leave out.
TEST(TextModels, AStepIsAFunctionOfItsKey) {
  model::TransformerSpec transformer = model::TransformerSpecByName("transformer-small").value();
  transformer.dropout = 0.2F;
  const auto run = [&](std::uint64_t key) {
    const auto network =
        std::make_shared<Transformer>(transformer, **model::FindModel("transformer-small"), 5);
    const BuiltModel model{network, BuildModel("transformer-small", 5)->objective};
    LossOf(model, TranslationBatch(), {.training = true, .dropout_key = key}).sum.backward();
    torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : network->parameters()) parameter.copy_(parameter.grad());
    return FlatTensors::OfParameters(*network).Hash();
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

// One sentence, by a whole pass for each of its words.
std::vector<std::int64_t> TranslatedAlone(const BuiltModel& model, const torch::Tensor& source,
                                          int steps) {
  std::vector<std::int64_t> input{kSentenceStart};
  for (int step = 0; step < steps; ++step) {
    const Tensors outputs = model.network->Forward({source, torch::tensor(input).unsqueeze(0)}, {});
    const auto next =
        at::mm(outputs[0].narrow(0, -1, 1), outputs[1].t()).argmax().item<std::int64_t>();
    if (next == kSentenceEnd) break;
    input.push_back(next);
  }
  return {input.begin() + 1, input.end()};
}

// Word by word with remembered keys and values, of ever fewer sentences. With larger weights words
// depend on what they follow instead of repeating it, and with a larger embedding of the end mark
// sentences end one after the other.
TEST(Transformer, TranslatesGreedily) {
  constexpr int kSteps = 12;
  const torch::NoGradGuard no_grad;
  const BuiltModel model = BuildModel("transformer-small", 3).value();
  const torch::Tensor source = Tokens(7, {7, 4, 5, 1, 6, 2, 3, 7}, 1);
  for (const auto& item : model.network->named_parameters()) {
    torch::Tensor parameter = item.value();
    if (parameter.dim() == 2 && item.key() != "embedding.weight") parameter.mul_(5);
  }
  torch::Tensor embedding = model.network->named_parameters()["embedding.weight"];
  embedding[0].zero_();  // a whole pass would take it for padding
  std::set<std::size_t> lengths;
  for (int round = 0; round < 4; ++round) {
    const auto translations = dynamic_cast<Translator&>(*model.network).Translate(source, kSteps);
    ASSERT_EQ(translations.size(), 8U);
    for (std::int64_t row = 0; row < 8; ++row) {
      const auto& translation = translations[static_cast<std::size_t>(row)];
      EXPECT_EQ(translation, TranslatedAlone(model, source.narrow(0, row, 1), kSteps));
      lengths.insert(translation.size());
    }
    embedding[kSentenceEnd].mul_(2);
  }
  EXPECT_GE(lengths.size(), 4U);
}

TEST(TextModels, RefuseWhatTheyHaveNoPlaceFor) {
  const auto status_of = [](const char* name, const Tensors& batch) {
    return TorchGuard([&]() -> Status {
      LossOf(BuildModel(name, 1).value(), batch);
      return {};
    });
  };
  Tensors batch = TranslationBatch();
  batch[0] = torch::ones({3, 65}, torch::kLong);
  EXPECT_THAT(status_of("transformer-small", batch),
              StatusIs(Code::kInternal, HasSubstr("65 pieces; the model has 64 positions")));
  batch = TranslationBatch();
  batch[2] = batch[2] + kVocabulary;
  EXPECT_THAT(status_of("transformer-small", batch),
              StatusIs(Code::kInternal, HasSubstr("not in the model's vocabulary")));
  batch = MaskedBatch();
  batch[0] = batch[0] + kVocabulary;
  EXPECT_THAT(status_of("bert-small", batch), StatusIs(Code::kInternal, HasSubstr("torch: ")));
}

}  // namespace
}  // namespace paceline::train

// The fused parts of text models against PyTorch's operators.
#include "train/text_layers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "train/attention.h"

namespace paceline::train {
namespace {

const ForwardContext kTraining{.training = true, .dropout_key = 11};

torch::Tensor Random(at::IntArrayRef sizes) { return torch::randn(sizes).requires_grad_(true); }

// Both ways from equal inputs; outputs and gradients agree.
template <typename Ours, typename Theirs>
void ExpectEqual(const std::vector<torch::Tensor>& inputs, const Ours& ours, const Theirs& theirs) {
  std::vector<torch::Tensor> a, b;
  for (const torch::Tensor& input : inputs) {
    a.push_back(input.detach().clone().requires_grad_(true));
    b.push_back(input.detach().clone().requires_grad_(true));
  }
  const torch::Tensor left = ours(a), right = theirs(b);
  ASSERT_TRUE(torch::allclose(left, right, 1e-4, 1e-5));
  const torch::Tensor weights = torch::randn(left.sizes());
  (left * weights).sum().backward();
  (right * weights).sum().backward();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::allclose(a[i].grad(), b[i].grad(), 1e-4, 1e-5)) << "input " << i;
  }
}

class TextLayers : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(1); }
};

TEST_F(TextLayers, AddDropoutIsDropoutThenAddition) {
  ExpectEqual(
      {Random({9, 33}), Random({9, 33})},
      [](const auto& in) { return AddDropout(in[0], in[1], 0.3F, kTraining, 4); },
      [](const auto& in) { return in[0] + Dropout(in[1], 0.3F, kTraining, 4); });
}

TEST_F(TextLayers, ReluDropoutIsReluThenDropout) {
  ExpectEqual(
      {Random({9, 33})}, [](const auto& in) { return ReluDropout(in[0], 0.3F, kTraining, 4); },
      [](const auto& in) { return Dropout(at::relu(in[0]), 0.3F, kTraining, 4); });
}

// By PyTorch's operators, with the mask of the fused one.
torch::Tensor PlainAttention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             std::int64_t heads, const Lengths& lengths, bool causal) {
  const auto n = static_cast<std::int64_t>(lengths.size());
  const auto split = [&](const torch::Tensor& x) {
    return x.view({n, x.size(0) / n, heads, x.size(1) / heads}).transpose(1, 2);
  };
  const torch::Tensor queries = split(q), keys = split(k), values = split(v);
  const double width = static_cast<double>(queries.size(3));
  torch::Tensor scores = queries.matmul(keys.transpose(2, 3)) / std::sqrt(width);
  const torch::Tensor hidden =
      torch::arange(keys.size(2)) >= torch::tensor(lengths).reshape({-1, 1, 1, 1});
  scores = scores.masked_fill(hidden, -1e30);
  if (causal) {
    const torch::Tensor later =
        torch::ones({queries.size(2), keys.size(2)}).triu(1).to(torch::kBool);
    scores = scores.masked_fill(later, -1e30);
  }
  return scores.softmax(3).matmul(values).transpose(1, 2).reshape({q.size(0), q.size(1)});
}

TEST_F(TextLayers, AttentionIsPyTorchsInAllThreeForms) {
  constexpr std::int64_t kSamples = 3, kQueries = 6, kKeys = 9, kWidth = 20, kHeads = 4;
  const Lengths queries(kSamples, kQueries), keys{9, 1, 4};
  ExpectEqual(
      {Random({kSamples * kQueries, kWidth}), Random({kSamples * kKeys, kWidth}),
       Random({kSamples * kKeys, kWidth})},
      [&](const auto& in) {
        return Attention({in[0], in[1], in[2], kHeads, false, queries, keys}, 0, kTraining, 0);
      },
      [&](const auto& in) { return PlainAttention(in[0], in[1], in[2], kHeads, keys, false); });
  ExpectEqual(
      {Random({kSamples * kQueries, kWidth}), Random({kSamples * kKeys, 2 * kWidth})},
      [&](const auto& in) {
        return Attention({in[0], in[1], {}, kHeads, false, queries, keys}, 0, kTraining, 0);
      },
      [&](const auto& in) {
        const auto parts = in[1].chunk(2, 1);
        return PlainAttention(in[0], parts[0].contiguous(), parts[1].contiguous(), kHeads, keys,
                              false);
      });
  ExpectEqual(
      {Random({kSamples * kQueries, 3 * kWidth})},
      [&](const auto& in) {
        return Attention({in[0], {}, {}, kHeads, true, queries, queries}, 0, kTraining, 0);
      },
      [&](const auto& in) {
        const auto parts = in[0].chunk(3, 1);
        return PlainAttention(parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous(),
                              kHeads, queries, true);
      });
}

// Values of 1 show the sum of the weights: 1 without dropout, other numbers with it.
TEST_F(TextLayers, AttentionDropsWithTheMaskOfItsLayer) {
  const Lengths lengths(2, 50);
  const auto attend = [&](std::uint64_t layer, const ForwardContext& context) {
    return Attention({torch::zeros({100, 8}), torch::zeros({100, 8}), torch::ones({100, 8}), 2,
                      false, lengths, lengths},
                     0.5F, context, layer);
  };
  EXPECT_TRUE(torch::allclose(attend(1, {}), torch::ones({100, 8})));
  EXPECT_TRUE(torch::equal(attend(1, kTraining), attend(1, kTraining)));
  EXPECT_FALSE(torch::equal(attend(1, kTraining), attend(2, kTraining)));
  EXPECT_NEAR(attend(1, kTraining).mean().item<double>(), 1, 0.05);
}

TEST_F(TextLayers, AttentionLeavesPaddingAtZero) {
  const torch::Tensor input = Random({2 * 5, 3 * 8});
  const torch::Tensor output =
      Attention({input, {}, {}, 2, false, {5, 2}, {5, 2}}, 0, kTraining, 0);
  EXPECT_EQ(output.narrow(0, 7, 3).abs().sum().item<float>(), 0);
  output.sum().backward();
  EXPECT_EQ(input.grad().narrow(0, 7, 3).abs().sum().item<float>(), 0);
  EXPECT_NE(input.grad().narrow(0, 5, 2).abs().sum().item<float>(), 0);
}

TEST(LengthsOf, CountsUpToTheLastToken) {
  EXPECT_EQ(LengthsOf(torch::tensor({{5, 0, 7, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}}, torch::kLong)),
            (Lengths{3, 1, 4}));
}

TEST_F(TextLayers, CrossEntropyIsPyTorchs) {
  const torch::Tensor targets = torch::tensor({3, 0, 16, 9, 5}, torch::kLong);
  const torch::Tensor weights = torch::tensor({0.5F, 1.0F, 0.25F, 0.0F, 2.0F});
  for (const bool with_bias : {false, true}) {
    ExpectEqual(
        {Random({5, 8}), Random({17, 8}), Random({17})},
        [&](const auto& in) {
          const auto bias = with_bias ? in[2] : torch::Tensor();
          const VocabularyLoss loss =
              CrossEntropyOverVocabulary({in[0], in[1], bias, targets, weights}, 0.1);
          EXPECT_EQ(loss.rows, 4);
          return loss.sum + in[2].sum();
        },
        [&](const auto& in) {
          torch::Tensor logits = at::mm(in[0], in[1].t());
          if (with_bias) logits = logits + in[2];
          const torch::Tensor losses =
              at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, -100, 0.1);
          return (losses * weights).sum() + in[2].sum();
        });
  }
}

TEST_F(TextLayers, CountingIsTheLossWithoutSmoothing) {
  const torch::NoGradGuard no_grad;
  const Predictions predictions{torch::randn({150, 8}), torch::randn({17, 8}), torch::randn({17}),
                                torch::arange(150) % 17, torch::linspace(0, 1, 150)};
  const VocabularyCounts counts = CountOverVocabulary(predictions);
  const VocabularyLoss loss = CrossEntropyOverVocabulary(predictions, 0);
  EXPECT_NEAR(counts.weighted_loss, loss.sum.item<double>(), 1e-3);
  EXPECT_EQ(counts.correct, loss.correct);
  EXPECT_EQ(counts.rows, 149);
  EXPECT_NEAR(counts.weight, 75, 1e-3);
  EXPECT_GT(counts.loss, counts.weighted_loss);
}

// Used as table and as output matrix: one dense gradient, as if both were written out.
TEST_F(TextLayers, ATiedTableGetsOneDenseGradient) {
  const torch::Tensor ids = torch::tensor({4, 1, 4, 0}, torch::kLong);
  ExpectEqual(
      {Random({6, 3})}, [&](const auto& in) { return LookUpTied(in[0], ids).mm(in[0].t()); },
      [&](const auto& in) { return in[0].index_select(0, ids).mm(in[0].t()); });
}

}  // namespace
}  // namespace paceline::train

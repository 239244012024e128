#include "train/gradient_exchange.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>

#include "base/clock.h"
#include "collective/engine_support.h"
#include "data/image_batches.h"
#include "data/loader.h"
#include "data/synthetic.h"
#include "testing/status_matchers.h"
#include "train/trainer.h"

namespace paceline::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

// A group of two whose other rank always brings the same as this one.
class EchoEngine final : public collective::Engine {
 public:
  explicit EchoEngine(bool beside_computation) : beside_computation_(beside_computation) {}

  const char* name() const override { return "echo"; }
  Rank rank() const override { return Rank(0); }
  std::uint64_t world() const override { return 2; }
  const algo::ShardLayout& layout() const override { return layout_; }
  Status failure() const override { return failure_.Get(); }
  bool MovesDataBesideComputation() const override { return beside_computation_; }
  Result<std::span<float>> Allocate(std::size_t floats) override {
    return std::span<float>(memory_.emplace_back(floats));
  }
  Status AllReduce(std::span<const std::span<float>> parts) override {
    PACELINE_TRY(failure());
    reduced.push_back(parts[0].size());
    for (float& value : parts[0]) value *= 2;
    return {};
  }
  Status ReduceScatter(std::span<const std::span<float>> parts) override {
    return AllReduce(parts);
  }
  Status AllGather(std::span<std::byte> blocks) override {
    PACELINE_TRY(failure());
    std::ranges::copy(blocks.first(blocks.size() / 2), blocks.subspan(blocks.size() / 2).begin());
    return {};
  }
  Status Broadcast(std::span<std::byte>, Rank) override { return failure(); }
  Status Barrier() override { return failure(); }
  void Abort(const Status& why) override { static_cast<void>(failure_.Set(why)); }

  std::vector<std::size_t> reduced;  // floats of each AllReduce()

 private:
  const bool beside_computation_;
  const algo::ShardLayout layout_ = algo::ShardLayout::Even(2, 2);
  collective::FirstFailure failure_;
  std::vector<std::vector<float>> memory_;
};

// Two tensors, of 20 and of 5 floats, each with space up to the next cache line, and 3 statistics.
struct ExchangeRig {
  explicit ExchangeRig(collective::Engine& engine, collective::Queue* queue)
      : params(FlatTensors::OfParameters(*module)),
        exchange(GradientExchange::Make(params, /*statistics=*/3,
                                        {.engine = &engine,
                                         .queue = queue,
                                         .layout = engine.layout(),
                                         .rank = engine.rank(),
                                         .bucket_bytes = 64})
                     .value()) {}

  void PutAll() {
    exchange->StartStep();
    exchange->Put(1, std::vector<float>(5, 1.0F));
    exchange->Put(0, std::vector<float>(20, 2.0F));
    exchange->FinishShard(std::vector<float>(3, 3.0F));
  }

  torch::nn::Linear module{4, 5};  // weight before bias
  FlatTensors params;
  std::unique_ptr<GradientExchange> exchange;
};

void ExpectSums(GradientExchange& exchange) {
  EXPECT_THAT(exchange.Gradient(0), Each(4.0F));
  EXPECT_THAT(exchange.Gradient(1), Each(2.0F));
  EXPECT_THAT(exchange.Statistics(), ElementsAre(6.0F, 6.0F, 6.0F));
}

TEST(GradientExchange, WithoutAQueueEverythingIsOneOperationAndOnlyInWait) {
  EchoEngine engine(/*beside_computation=*/false);
  ExchangeRig rig(engine, nullptr);
  for (int step = 0; step < 2; ++step) {
    engine.reduced.clear();
    rig.PutAll();
    EXPECT_THAT(engine.reduced, IsEmpty());
    ASSERT_THAT(rig.exchange->Wait(), IsOk());
    EXPECT_THAT(engine.reduced, ElementsAre(32 + 16 + 16));
    ExpectSums(*rig.exchange);
    EXPECT_EQ(rig.exchange->Timings().size(), 1U);
  }
}

TEST(GradientExchange, KnowsThePlaceOfItsParametersOnly) {
  EchoEngine engine(/*beside_computation=*/false);
  ExchangeRig rig(engine, nullptr);
  rig.exchange->StartStep();
  const torch::Tensor weight = rig.exchange->Of(rig.module->weight);
  EXPECT_EQ(weight.sizes(), rig.module->weight.sizes());
  EXPECT_EQ(weight.data_ptr<float>(), rig.exchange->Gradient(0).data());
  EXPECT_EQ(rig.exchange->Of(rig.module->bias).data_ptr<float>(), rig.exchange->Gradient(1).data());
  EXPECT_FALSE(rig.exchange->Of(torch::ones({5})).defined());
}

TEST(GradientExchange, WithAQueueEveryBucketIsAnOperation) {
  EchoEngine engine(/*beside_computation=*/true);
  collective::Queue queue(engine, SystemClock());
  ExchangeRig rig(engine, &queue);
  rig.PutAll();
  ASSERT_THAT(rig.exchange->Wait(), IsOk());
  EXPECT_THAT(engine.reduced, ElementsAre(16, 32, 3));
  ExpectSums(*rig.exchange);
  EXPECT_EQ(rig.exchange->Timings().size(), 3U);
}

class TrainerInGroup : public ::testing::TestWithParam<bool> {
 protected:
  // The outcome of one step of the first of two workers.
  static Result<StepOutcome> RunStep(collective::Engine& engine, const GradientFault& fault) {
    auto trainer =
        Trainer::Create(
            BuildModel("vgg16-small", 1).value(),
            {.shards = 2, .optimizer = {.name = "sgd"}, .gradient_fault = fault, .engine = &engine},
            SystemClock())
            .value();
    const algo::BatchPlan plan{
        .seed = 1, .dataset_size = 16, .batch = 4, .shards = 2, .total_samples = 8};
    const data::ImageBatches source(
        std::make_shared<data::Synthetic>(data::SyntheticOptions{.seed = 1, .size = 16}));
    const auto loader = data::BatchLoader::Create(source, plan, {.end_shard = ShardId(1)}).value();
    return trainer->RunStep({.step = Step(0), .samples = 8, .learning_rate = 0.01},
                            [&] { return loader->Next(std::stop_token()); });
  }
};

TEST_P(TrainerInGroup, AddsTheReportsOfAllRanks) {
  EchoEngine engine(GetParam());
  const auto outcome = RunStep(engine, nullptr);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(outcome->applied);
  EXPECT_EQ(outcome->samples, 8U);
  EXPECT_EQ(engine.reduced.size() == 1, !GetParam());
}

TEST_P(TrainerInGroup, WhenTheGroupFailsNoFurtherGradientIsComputed) {
  EchoEngine engine(GetParam());
  int gradients = 0;
  const auto outcome = RunStep(engine, [&](Step, std::size_t, std::span<float>) {
    if (++gradients == 3) engine.Abort(Status::Error(Code::kPeerLost, "rank 1 is gone"));
  });
  EXPECT_THAT(outcome, StatusIs(Code::kPeerLost, HasSubstr("rank 1 is gone")));
  EXPECT_EQ(gradients, 3);
}

INSTANTIATE_TEST_SUITE_P(BesideComputationOrNot, TrainerInGroup, ::testing::Bool());

}  // namespace
}  // namespace paceline::train

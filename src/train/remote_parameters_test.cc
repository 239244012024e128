#include "train/remote_parameters.h"

#include <array>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "ps/local_store.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"

namespace paceline::train {
namespace {

using testing::IsOk;

constexpr std::uint64_t kBatch = 4, kSamples = 10;  // 4, 4 and 2 of a step

// A module of two weights on a server in this process.
class HalfAsyncTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto job = RemoteParameters::MakeJob(params_, buffers_, options_);
    auto core = ps::ServerCore::Open({});
    ASSERT_THAT(core, IsOk());
    core_ = std::move(core).value();
    ASSERT_THAT(core_->Configure(job), IsOk());
    store_ = std::make_unique<ps::LocalStore>(*core_);
    remote_ =
        std::make_unique<RemoteParameters>(*store_, params_, buffers_, options_, SystemClock());
    ASSERT_THAT(remote_->Initialise(), IsOk());
  }

  void Begin(std::uint64_t steps_per_round) {
    const algo::BatchPlan plan{
        .dataset_size = kSamples, .batch = kBatch, .total_samples = kSamples};
    ASSERT_THAT(remote_->Begin({.plan = plan, .steps_per_round = steps_per_round}, 1), IsOk());
    first_ = Weights();
  }
  void Step(double rate, double samples, std::array<float, 2> gradient) {
    RemoteReport report{.samples = samples, .finite = std::isfinite(gradient[0])};
    ASSERT_THAT(remote_->Exchange(rate, {std::span<float>(gradient)}, {}, report), IsOk());
    ASSERT_THAT(remote_->Await(), IsOk());
  }
  std::array<float, 2> Weights() const {
    const std::span<const float> all = params_.Of(params_.ranges().front());
    return {all[0], all[1]};
  }
  void ExpectMovedBy(float first, float second) const {
    EXPECT_FLOAT_EQ(Weights()[0], first_[0] - first);
    EXPECT_FLOAT_EQ(Weights()[1], first_[1] - second);
  }

  torch::nn::Linear module_{torch::nn::LinearOptions(2, 1).bias(false)};
  FlatTensors params_ = FlatTensors::OfParameters(*module_);
  FlatTensors buffers_ = FlatTensors::OfBuffers(*module_);
  RemoteOptions options_{.mode = RemoteMode::kHalfAsync, .fingerprint = "test", .optimizer = {}};
  std::unique_ptr<ps::ServerCore> core_;
  std::unique_ptr<ps::LocalStore> store_;
  std::unique_ptr<RemoteParameters> remote_;
  std::array<float, 2> first_{};
};

TEST_F(HalfAsyncTest, ARoundIsTheMeanOverItsSamplesAtTheRateOfItsFirstStep) {
  Begin(3);
  Step(0.5, 4, {1, 10});
  Step(0.25, 4, {2, 20});
  ExpectMovedBy(0, 0);
  Step(0.125, 2, {4, 40});
  ExpectMovedBy(0.5F * (4 * 1 + 4 * 2 + 2 * 4) / 10, 0.5F * (4 * 10 + 4 * 20 + 2 * 40) / 10);
}

TEST_F(HalfAsyncTest, AStepThatIsNotFiniteHasNoSamplesInTheMean) {
  Begin(3);
  Step(0.5, 4, {std::numeric_limits<float>::quiet_NaN(), 10});
  Step(0.25, 4, {2, 20});
  Step(0.125, 2, {4, 40});
  ExpectMovedBy(0.5F * (4 * 2 + 2 * 4) / 6, 0.5F * (4 * 20 + 2 * 40) / 6);
}

TEST_F(HalfAsyncTest, EachRoundHasItsOwnRate) {
  Begin(2);
  Step(0.5, 4, {1, 0});
  Step(0.25, 4, {1, 0});
  ExpectMovedBy(0.5F, 0);
  Step(0.125, 2, {1, 0});
  ExpectMovedBy(0.5F + 0.125F, 0);
}

}  // namespace
}  // namespace paceline::train

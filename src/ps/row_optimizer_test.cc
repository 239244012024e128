#include "ps/row_optimizer.h"

#include <vector>

#include <gmock/gmock.h>

#include "kernel/optimizer.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr RowOptimizerKind kAllKinds[] = {RowOptimizerKind::kSgd,     RowOptimizerKind::kMomentum,
                                          RowOptimizerKind::kAdagrad, RowOptimizerKind::kAdam,
                                          RowOptimizerKind::kFtrl,    RowOptimizerKind::kAdamW};

TEST(RowOptimizer, NamesAreReadBack) {
  for (const RowOptimizerKind kind : kAllKinds) {
    const auto parsed = ParseRowOptimizer(RowOptimizerName(kind));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, kind);
  }
  EXPECT_THAT(ParseRowOptimizer("lamb"), StatusIs(Code::kInvalidArgument, HasSubstr("'lamb'")));
}

TEST(RowOptimizer, StateIsAsLargeAsTheOptimiserNeeds) {
  EXPECT_EQ(StateFloats(RowOptimizerKind::kSgd, 10), 0U);
  EXPECT_EQ(StateFloats(RowOptimizerKind::kMomentum, 10), 10U);
  EXPECT_EQ(StateFloats(RowOptimizerKind::kAdagrad, 10), 10U);
  EXPECT_EQ(StateFloats(RowOptimizerKind::kAdam, 10), 21U);
  EXPECT_EQ(StateFloats(RowOptimizerKind::kFtrl, 10), 20U);
  EXPECT_EQ(StateFloats(RowOptimizerKind::kAdamW, 10), 21U);
}

class OptimizedRow {
 public:
  explicit OptimizedRow(const RowOptimizerOptions& options)
      : options_(options), state_(StateFloats(options.kind, 3)) {}

  const std::vector<float>& Learn(const std::vector<float>& gradient) {
    ApplyGradient(options_, 0.1F, gradient, {.values = values_, .state = state_});
    return values_;
  }

 private:
  RowOptimizerOptions options_;
  std::vector<float> values_{0.5F, -1.0F, 2.0F};
  std::vector<float> state_;
};

const std::vector<float> kStart{0.5F, -1.0F, 2.0F};
const std::vector<float> kFirst{0.25F, -0.5F, 1.0F};
const std::vector<float> kSecond{-1.0F, 0.125F, 3.0F};

TEST(RowOptimizer, EachKindIsTheKernelWithItsOptions) {
  std::vector<float> values = kStart, a(3), b(3);
  OptimizedRow sgd({.kind = RowOptimizerKind::kSgd, .weight_decay = 0.1F});
  kernel::SgdStep({.learning_rate = 0.1F, .weight_decay = 0.1F}, values, kFirst, {});
  EXPECT_EQ(sgd.Learn(kFirst), values);

  values = kStart;
  OptimizedRow momentum({.kind = RowOptimizerKind::kMomentum, .momentum = 0.5F});
  OptimizedRow adagrad({.kind = RowOptimizerKind::kAdagrad, .epsilon = 1e-3F});
  for (const auto& gradient : {kFirst, kSecond}) {
    kernel::SgdStep({.learning_rate = 0.1F, .momentum = 0.5F}, values, gradient, a);
    EXPECT_EQ(momentum.Learn(gradient), values);
  }
  values = kStart;
  a.assign(3, 0);
  for (const auto& gradient : {kFirst, kSecond}) {
    kernel::AdagradStep({.learning_rate = 0.1F, .epsilon = 1e-3F}, values, gradient, a);
    EXPECT_EQ(adagrad.Learn(gradient), values);
  }
  values = kStart;
  a.assign(3, 0);
  OptimizedRow ftrl(
      {.kind = RowOptimizerKind::kFtrl, .ftrl_beta = 2, .ftrl_l1 = 0.1F, .ftrl_l2 = 0.2F});
  for (const auto& gradient : {kFirst, kSecond}) {
    kernel::FtrlStep({.learning_rate = 0.1F, .beta = 2, .l1 = 0.1F, .l2 = 0.2F}, values, gradient,
                     a, b);
    EXPECT_EQ(ftrl.Learn(gradient), values);
  }
}

TEST(RowOptimizer, AdamCountsTheUpdatesOfTheRow) {
  std::vector<float> values = kStart, mean(3), variance(3);
  OptimizedRow adam({.kind = RowOptimizerKind::kAdam, .beta1 = 0.8F});
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const auto& gradient = step % 2 == 1 ? kFirst : kSecond;
    kernel::AdamStep({.learning_rate = 0.1F, .beta1 = 0.8F}, step, values, gradient, mean,
                     variance);
    EXPECT_EQ(adam.Learn(gradient), values) << step;
  }
}

}  // namespace
}  // namespace paceline::ps

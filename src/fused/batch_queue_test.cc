#include "fused/batch_queue.h"

#include <condition_variable>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "base/mutex.h"
#include "testing/status_matchers.h"

namespace paceline::fused {
namespace {

using testing::IsOk;

// Only counts the batches that it has begun to prepare.
class CountingModel : public sparse::FusedModel {
 public:
  const std::vector<sparse::TableSpec>& tables() const override { return tables_; }
  const std::vector<sparse::DenseSpec>& dense() const override { return dense_; }
  void InitialiseDense(std::uint64_t, std::span<float>) const override {}
  std::uint64_t dataset_size() const override { return 100; }
  Result<std::unique_ptr<sparse::SparseBatch>> Prepare(
      const algo::PositionRange& positions, std::unique_ptr<sparse::SparseBatch>) const override {
    const MutexLock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    auto batch = std::make_unique<sparse::SparseBatch>();
    batch->samples = positions.begin;
    return batch;
  }
  sparse::StepLoss Compute(const sparse::SparseBatch&, std::span<const float>, float,
                           std::span<float>, std::span<const sparse::TableRows>) override {
    return {};
  }
  void Score(const sparse::SparseBatch&, std::span<const float>, std::span<const sparse::TableRows>,
             std::vector<Scored>&) override {}

  int begun() const {
    const MutexLock lock(mutex_);
    return begun_;
  }
  void AwaitBegun(int batches) const {
    const MutexLock lock(mutex_);
    while (begun_ < batches) changed_.wait(mutex_);
  }

 private:
  std::vector<sparse::TableSpec> tables_;
  std::vector<sparse::DenseSpec> dense_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any changed_;
  mutable int begun_ PACELINE_GUARDED_BY(mutex_) = 0;
};

algo::TrainerShare TenSteps() {
  algo::TrainerShare share;
  share.plan.dataset_size = 100;
  share.plan.total_samples = 100;
  share.plan.shards = 1;
  share.plan.batch = 10;
  return share;
}

TEST(BatchQueue, NothingIsBegunBetweenNextAndContinueUnlessSomebodyWaits) {
  const CountingModel model;
  BatchQueue queue(model, {.share = TenSteps(), .depth = 2});
  model.AwaitBegun(2);
  for (std::uint64_t step = 0; step < 2; ++step) {
    const auto batch = queue.Next();
    ASSERT_THAT(batch, IsOk());
    EXPECT_EQ((*batch)->samples, 10 * step);
    // The second may not have been complete, and then somebody has waited for it.
    if (step == 0) {
      EXPECT_EQ(model.begun(), 2);
    }
  }
  const auto third = queue.Next();  // the queue is empty
  ASSERT_THAT(third, IsOk());
  EXPECT_EQ((*third)->samples, 20U);
  queue.Continue();
  model.AwaitBegun(5);
  for (std::uint64_t step = 3; step < 10; ++step) {
    const auto batch = queue.Next();
    ASSERT_THAT(batch, IsOk());
    EXPECT_EQ((*batch)->samples, 10 * step);
  }
}

}  // namespace
}  // namespace paceline::fused

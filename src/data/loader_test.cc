#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_batches.h"
#include "data/synthetic.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::data {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

// A deep copy of a batch.
struct Copy {
  std::uint64_t step, shard, first_position, epoch;
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  friend bool operator==(const Copy&, const Copy&) = default;
};

Copy CopyOf(const Batch& batch) {
  const std::span<float> images = batch.tensors.at(0).Floats();
  const std::span<std::int64_t> labels = batch.tensors.at(1).Integers();
  EXPECT_EQ(images.size(), batch.count * kCifarPixels);
  EXPECT_EQ(labels.size(), batch.count);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(images.data()) % 64, 0U);
  return {batch.step.value(),
          batch.shard.value(),
          batch.first_position,
          batch.epoch,
          {images.begin(), images.end()},
          {labels.begin(), labels.end()}};
}

// Batches of a data set that outlives them.
ImageBatches Of(const Dataset& dataset, Augment augment = Augment::kStandard) {
  return ImageBatches(std::shared_ptr<const Dataset>(std::shared_ptr<void>(), &dataset),
                      {.augment = augment});
}

std::unique_ptr<BatchLoader> Make(const BatchSource& source, const algo::BatchPlan& plan,
                                  const LoaderOptions& options) {
  auto loader = BatchLoader::Create(source, plan, options);
  EXPECT_THAT(loader, IsOk());
  return std::move(loader).value();
}

std::vector<Copy> All(const Dataset& dataset, const algo::BatchPlan& plan,
                      const LoaderOptions& options, Augment augment = Augment::kStandard) {
  const ImageBatches source = Of(dataset, augment);
  const auto loader = Make(source, plan, options);
  std::vector<Copy> batches;
  for (;;) {
    const Result<const Batch*> batch = loader->Next({});
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || *batch == nullptr) return batches;
    batches.push_back(CopyOf(**batch));
  }
}

LoaderOptions Shards(std::uint64_t begin, std::uint64_t end, int threads = 1, int depth = 2) {
  return {
      .first_shard = ShardId(begin), .end_shard = ShardId(end), .threads = threads, .depth = depth};
}

// 37 samples, 2 epochs, global batches of 4 x 3: 6 full steps, then 2 samples.
algo::BatchPlan Plan() {
  return {.seed = testing::TestSeed(),
          .dataset_size = 37,
          .batch = 3,
          .shards = 4,
          .total_samples = 74};
}

Synthetic Samples(std::uint64_t size = 37) {
  return Synthetic({.seed = testing::TestSeed(), .size = size});
}

TEST(BatchLoader, DeliversEachOwnedShardOfEachStepInOrder) {
  const Synthetic dataset = Samples();
  const algo::BatchPlan plan = Plan();
  const std::vector<Copy> batches = All(dataset, plan, Shards(1, 3));
  ASSERT_EQ(batches.size(), 14U);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const algo::PositionRange range = plan.ShardRange(Step(i / 2), ShardId(1 + i % 2));
    EXPECT_EQ(batches[i].step, i / 2);
    EXPECT_EQ(batches[i].shard, 1 + i % 2);
    EXPECT_EQ(batches[i].first_position, range.begin);
    EXPECT_EQ(batches[i].epoch, range.begin / 37);
    ASSERT_EQ(batches[i].labels.size(), range.count);
    for (std::size_t s = 0; s < range.count; ++s) {
      EXPECT_EQ(batches[i].labels[s],
                static_cast<std::int64_t>(plan.SampleAt(range.begin + s) % 10));
    }
  }
  EXPECT_TRUE(batches.back().labels.empty()) << "the last step has two samples, in shard 0";
}

TEST(BatchLoader, APartHasTheBytesOfTheWhole) {
  const Synthetic dataset = Samples();
  const std::vector<Copy> whole = All(dataset, Plan(), Shards(0, 4));
  LoaderOptions options = Shards(0, 4);
  options.first_step = Step(1);
  options.skip = 3;
  options.most = 6;
  const std::vector<Copy> part = All(dataset, Plan(), options);
  ASSERT_EQ(part.size(), 6U);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[7 + i]) << i;
  options.skip = 100;
  EXPECT_TRUE(All(dataset, Plan(), options).empty());
}

TEST(BatchLoader, ImagesAreTheAugmentedSamples) {
  const Synthetic dataset = Samples();
  const algo::BatchPlan plan = Plan();
  for (Augment augment : {Augment::kNone, Augment::kStandard}) {
    const Copy batch = All(dataset, plan, Shards(2, 3), augment).at(3);
    std::vector<std::uint8_t> image(kCifarPixels);
    std::vector<float> expected(kCifarPixels);
    for (std::size_t s = 0; s < 3; ++s) {
      std::int64_t label = -1;
      ASSERT_THAT(dataset.Read(plan.SampleAt(batch.first_position + s), image, label), IsOk());
      Normalize(image, kCifarShape, DrawCropFlip(augment, plan.seed, 3, 2 * 3 + s),
                kCifarNormalization, expected);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             batch.images.begin() + static_cast<std::ptrdiff_t>(s * kCifarPixels)));
    }
  }
}

TEST(BatchLoader, ContentDoesNotDependOnThreadsOrDepth) {
  const Synthetic dataset = Samples();
  const std::vector<Copy> expected = All(dataset, Plan(), Shards(0, 4, 1, 1));
  for (int threads : {1, 2, 5}) {
    for (int depth : {1, 2, 7, 1000}) {
      EXPECT_EQ(All(dataset, Plan(), Shards(0, 4, threads, depth)), expected)
          << threads << " threads, depth " << depth;
    }
  }
}

TEST(BatchLoader, ContentDoesNotDependOnWhoOwnsTheShard) {
  const Synthetic dataset = Samples();
  const std::vector<Copy> expected = All(dataset, Plan(), Shards(0, 4));
  std::vector<Copy> merged(expected.size());
  for (auto [begin, end] : {std::pair{0U, 1U}, std::pair{1U, 4U}}) {
    for (Copy& batch : All(dataset, Plan(), Shards(begin, end))) {
      const std::size_t place = batch.step * 4 + batch.shard;
      merged.at(place) = std::move(batch);
    }
  }
  EXPECT_EQ(merged, expected);
}

TEST(BatchLoader, StartsAtAnyStep) {
  const Synthetic dataset = Samples();
  const std::vector<Copy> whole = All(dataset, Plan(), Shards(1, 2));
  for (std::uint64_t first : {1U, 6U, 7U, 1000U}) {
    LoaderOptions options = Shards(1, 2);
    options.first_step = Step(first);
    const std::vector<Copy> expected(
        whole.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(first, whole.size())),
        whole.end());
    EXPECT_EQ(All(dataset, Plan(), options), expected);
  }
}

TEST(BatchLoader, EndsAtOnceWithoutShardsOrSteps) {
  const Synthetic dataset = Samples();
  EXPECT_TRUE(All(dataset, Plan(), Shards(2, 2)).empty());
  algo::BatchPlan nothing = Plan();
  nothing.total_samples = 0;
  EXPECT_TRUE(All(dataset, nothing, Shards(0, 4)).empty());
}

TEST(BatchLoader, EndStaysTheEnd) {
  const Synthetic dataset = Samples(1);
  const ImageBatches source = Of(dataset);
  const auto loader =
      Make(source, {.dataset_size = 1, .batch = 1, .total_samples = 1}, Shards(0, 1));
  EXPECT_NE(*loader->Next({}), nullptr);
  EXPECT_EQ(*loader->Next({}), nullptr);
  EXPECT_EQ(*loader->Next({}), nullptr);
}

TEST(BatchLoader, ReusesAFixedPoolOfBuffers) {
  const Synthetic dataset = Samples();
  const ImageBatches source = Of(dataset);
  const auto loader = Make(source, Plan(), Shards(0, 2, 2, 3));
  std::vector<const Batch*> pool;
  for (std::size_t i = 0; i < 14; ++i) {
    pool.push_back(*loader->Next({}));
    if (i >= 6) {
      EXPECT_EQ(pool[i], pool[i - 6]);
    }
  }
}

TEST(BatchLoader, RefusesWrongOptions) {
  const Synthetic dataset = Samples(), other = Samples(38);
  const auto refused = [&](const Dataset& data, const algo::BatchPlan& plan,
                           const LoaderOptions& options, const char* why) {
    EXPECT_THAT(BatchLoader::Create(Of(data), plan, options),
                StatusIs(Code::kInvalidArgument, HasSubstr(why)));
  };
  refused(other, Plan(), Shards(0, 1), "37 samples on a data set of 38");
  refused(dataset, {}, Shards(0, 1), "empty");
  refused(dataset, Plan(), Shards(0, 5), "[0, 5) of 4");
  refused(dataset, Plan(), Shards(3, 2), "[3, 2) of 4");
  refused(dataset, Plan(), Shards(0, 1, 0), "0 threads");
  refused(dataset, Plan(), Shards(0, 1, 1, 0), "depth of 0");
}

// Fails for one sample; counts reads; can hold every read back until it is opened.
class Gated final : public Dataset {
 public:
  explicit Gated(std::uint64_t bad_sample = ~0ULL) : bad_sample_(bad_sample) {}

  std::uint64_t size() const override { return 37; }
  std::int64_t classes() const override { return 10; }
  std::string Fingerprint() const override { return "gated"; }
  Status Read(std::uint64_t index, std::span<std::uint8_t> image,
              std::int64_t& label) const override {
    reads.fetch_add(1);
    reads.notify_all();
    open.wait(false);
    if (index == bad_sample_) return Status::Error(Code::kBadData, "broken sample");
    std::ranges::fill(image, static_cast<std::uint8_t>(index));
    label = static_cast<std::int64_t>(index % 10);
    return {};
  }

  mutable std::atomic<int> reads{0};
  mutable std::atomic<bool> open{true};

 private:
  std::uint64_t bad_sample_;
};

TEST(BatchLoader, AReadErrorComesInItsPlaceAndStays) {
  const algo::BatchPlan plan = Plan();
  for (int threads : {1, 4}) {
    const Gated dataset(plan.SampleAt(31));  // step 2, shard 2
    const ImageBatches source = Of(dataset);
    const auto loader = Make(source, plan, Shards(0, 4, threads, 3));
    for (int i = 0; i < 10; ++i) {
      const Result<const Batch*> batch = loader->Next({});
      ASSERT_THAT(batch, IsOk());
      ASSERT_EQ((*batch)->step.value() * 4 + (*batch)->shard.value(),
                static_cast<std::uint64_t>(i));
    }
    EXPECT_THAT(loader->Next({}), StatusIs(Code::kBadData, HasSubstr("broken sample")));
    EXPECT_THAT(loader->Next({}), StatusIs(Code::kBadData, HasSubstr("broken sample")));
  }
}

TEST(BatchLoader, NeverReadsFurtherAheadThanItsDepth) {
  const Gated dataset;
  const ImageBatches source = Of(dataset);
  const auto loader = Make(source, Plan(), Shards(0, 1, 1, 2));  // two batches of three
  ASSERT_THAT(loader->Next({}), IsOk());
  for (int seen = dataset.reads.load(); seen < 6; seen = dataset.reads.load()) {
    dataset.reads.wait(seen);
  }
  ASSERT_THAT(loader->Next({}), IsOk());
  EXPECT_LE(dataset.reads.load(), 9) << "one batch was given back, so one more may be read";
}

TEST(BatchLoader, NextIsStoppedWhileWaitingAndCanBeRepeated) {
  Gated dataset;
  const ImageBatches source = Of(dataset);
  dataset.open = false;
  const auto loader = Make(source, Plan(), Shards(0, 1));
  std::stop_source stop;
  std::jthread stopper([&] {
    dataset.reads.wait(0);  // the loader is busy, so Next has to wait
    stop.request_stop();
  });
  EXPECT_THAT(loader->Next(stop.get_token()), StatusIs(Code::kAborted, HasSubstr("stopped")));
  dataset.open = true;
  dataset.open.notify_all();
  const Result<const Batch*> batch = loader->Next({});
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ((*batch)->step, Step(0));
}

TEST(BatchLoader, ClosesInAnyState) {
  const Synthetic dataset = Samples();
  const ImageBatches source = Of(dataset);
  for (int threads : {1, 3}) {
    for (int taken = 0; taken < 8; ++taken) {
      const auto loader = Make(source, Plan(), Shards(0, 4, threads, 1 + taken % 3));
      for (int i = 0; i < taken; ++i) ASSERT_THAT(loader->Next({}), IsOk());
    }
  }
}

TEST(EvalBatches, GoThroughEverySampleInOrderWithAShortLast) {
  for (std::uint64_t size : {0U, 1U, 10U, 11U}) {
    const Synthetic dataset = Samples(size);
    const ImageBatches source = Of(dataset);
    for (std::size_t batch_size : {1U, 3U, 10U, 100U}) {
      const std::size_t ahead = batch_size % 4;  // 1, 3, 2 and none
      auto batches = EvalBatches::Create(source, batch_size, {}, ahead);
      ASSERT_THAT(batches, IsOk());
      std::uint64_t index = 0, steps = 0;
      for (;;) {
        const Result<const Batch*> batch = batches->Next();
        ASSERT_THAT(batch, IsOk());
        if (*batch == nullptr) break;
        EXPECT_EQ((*batch)->count, std::min<std::uint64_t>(batch_size, size - index));
        EXPECT_EQ((*batch)->first_position, index);
        EXPECT_EQ((*batch)->step, Step(steps++));
        for (std::int64_t label : (*batch)->tensors.at(1).Integers()) {
          EXPECT_EQ(label, static_cast<std::int64_t>(index++ % 10));
        }
      }
      EXPECT_EQ(index, size);
    }
  }
}

TEST(EvalBatches, HoldTheImagesAsTheyAre) {
  const Synthetic dataset = Samples(2);
  const ImageBatches source = Of(dataset);
  auto batches = EvalBatches::Create(source, 2);
  ASSERT_THAT(batches, IsOk());
  const Copy batch = CopyOf(**batches->Next());
  std::vector<std::uint8_t> image(kCifarPixels);
  std::vector<float> expected(kCifarPixels);
  std::int64_t label = -1;
  ASSERT_THAT(dataset.Read(1, image, label), IsOk());
  Normalize(image, kCifarShape, {}, kCifarNormalization, expected);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.images.begin() + kCifarPixels));
}

TEST(EvalBatches, PassErrorsOnAndRefuseEmptyBatches) {
  const Gated dataset(4);
  const ImageBatches source = Of(dataset);
  EXPECT_THAT(EvalBatches::Create(source, 0), StatusIs(Code::kInvalidArgument, HasSubstr("0")));
  for (const std::size_t ahead : {0U, 2U}) {
    auto batches = EvalBatches::Create(source, 3, {}, ahead);
    ASSERT_THAT(batches, IsOk());
    EXPECT_THAT(batches->Next(), IsOk());
    EXPECT_THAT(batches->Next(), StatusIs(Code::kBadData, HasSubstr("broken sample")));
  }
}

}  // namespace
}  // namespace paceline::data

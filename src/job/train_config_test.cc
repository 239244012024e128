#include "job/train_config.h"

#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

const model::ModelCard& Vgg16Card() { return *model::FindModel("vgg16").value(); }

TrainConfig Resolved() {
  TrainConfig config;
  config.model = "vgg16";
  EXPECT_THAT(Resolve(config, Vgg16Card(), 2), IsOk());
  return config;
}

TEST(Resolve, TakesDefaultsFromCardAndMachine) {
  const TrainConfig config = Resolved();
  EXPECT_EQ(config.batch, 128);
  EXPECT_EQ(config.optimizer, "adam");
  EXPECT_EQ(config.lr, 1e-3);
  EXPECT_EQ(config.threads, 2);
  EXPECT_EQ(config.epochs, 1U);
  EXPECT_EQ(config.shards, 1);
}

TEST(Resolve, ReproducibleRunsUseOneThreadUnlessToldOtherwise) {
  TrainConfig config;
  config.reproducible = true;
  ASSERT_THAT(Resolve(config, Vgg16Card(), 8), IsOk());
  EXPECT_EQ(config.threads, 1);
}

TEST(Resolve, NamesTheFlagThatIsWrong) {
  struct Case {
    std::function<void(TrainConfig&)> change;
    const char* message;
  };
  const std::vector<Case> cases{
      {[](auto& c) { c.batch = -1; }, "--batch is -1; it must be 1 to"},
      {[](auto& c) { c.threads = -2; }, "--threads is -2"},
      {[](auto& c) { c.data_threads = 0; }, "--data-threads is 0; it must be 1 to"},
      {[](auto& c) { c.loss = "l1"; }, "--loss is 'l1'; it takes one of: cross-entropy, mse"},
      {[](auto& c) { c.loss = "mse"; }, "--loss and --classes go with MODEL.pt; vgg16 has its own"},
      {[](auto& c) { c.classes = 20; }, "--loss and --classes go with MODEL.pt"},
      {[](auto& c) { c.classes = 0; }, "--classes is 0; it must be 1 to"},
      {[](auto& c) { c.image_size = 7; }, "--image-size is 7; it must be 8 to"},
      {[](auto& c) { c.image_size = 64; }, "--image-size is 64; vgg16 takes one size only"},
      {[](auto& c) { c.analogies = "file"; }, "--analogies and --similarities ask about the words"},
      {[](auto& c) { c.similarities = "file"; }, "they go with word2vec and --data PATH"},
      {[](auto& c) { c.workers = 0; }, "--workers is 0; it must be 1 to"},
      {[](auto& c) { c.workers = 2, c.shards = 1; }, "--shards 1 is less than --workers 2"},
      {[](auto& c) { c.workers = 2, c.strategy = "local"; }, "--strategy local is one worker"},
      {[](auto& c) { c.engine = "pigeon"; }, "--engine is 'pigeon'"},
      {[](auto& c) { c.optimizer = "adamm"; }, "--optimizer is 'adamm'; it takes one of: sgd"},
      {[](auto& c) { c.lr_schedule = "step"; }, "--lr-decay-every"},
      {[](auto& c) { c.lr_decay_at = "30,x"; }, "--lr-decay-at '30,x': 'x' is not a whole number"},
      {[](auto& c) { c.lr_decay_at = "60,30"; }, "--lr-decay-at '60,30': '30' is not larger"},
      {[](auto& c) { c.lr_decay_at = "-1"; }, "--lr-decay-at '-1'"},
      {[](auto& c) { c.lr_decay_at = "1", c.lr_decay_every = 5; }, "--lr-decay-at or --lr-decay-e"},
      {[](auto& c) { c.lr_decay_at = "1", c.lr_schedule = "cosine"; }, "step, not cosine"},
      {[](auto& c) { c.momentum = 0.9; }, "--momentum goes with --optimizer sgd"},
      {[](auto& c) { c.steps = c.epochs = 1; }, "--steps or --epochs, not both"},
      {[](auto& c) { c.keep = 1; }, "--keep is 1; it must be 2 to"},
      {[](auto& c) { c.strategy = "magic"; }, "--strategy is 'magic'"},
      {[](auto& c) { c.lr = -0.1; }, "--lr is -0.1"},
      {[](auto& c) { c.restarts = -1; }, "--restarts is -1"},
      {[](auto& c) { c.servers = 2; }, "go with --strategy ps"},
      {[](auto& c) { c.wal = "off"; }, "go with --strategy ps"},
      {[](auto& c) { c.chaos = "kill=server:0@step1"; }, "go with an elastic run"},
  };
  for (const Case& wrong : cases) {
    TrainConfig config;
    wrong.change(config);
    EXPECT_THAT(Resolve(config, Vgg16Card(), 2),
                StatusIs(Code::kInvalidArgument, HasSubstr(wrong.message)));
  }
}

TEST(Resolve, NamesTheServerFlagThatIsWrong) {
  struct Case {
    std::function<void(TrainConfig&)> change;
    const char* message;
  };
  const std::vector<Case> cases{
      {[](auto& c) { c.mode = "eager"; }, "--mode is 'eager'; it takes one of: sync, async"},
      {[](auto& c) { c.servers = 0; }, "--servers is 0; it must be 1 to 1000"},
      {[](auto& c) { c.servers = 1001; }, "--servers is 1001; it must be 1 to 1000"},
      {[](auto& c) { c.wal = "maybe"; }, "--wal is 'maybe'; it takes one of: always, group, off"},
      {[](auto& c) { c.wal_group_ms = -1; }, "--wal-group-ms is -1"},
      {[](auto& c) { c.table_store = "tape"; }, "--table-store is 'tape'"},
      {[](auto& c) { c.table_memory_mb = 0; }, "--table-memory-mb is 0"},
      {[](auto& c) { c.geo_steps = 0; }, "--geo-steps is 0"},
      {[](auto& c) { c.merge = 0; }, "--merge is 0"},
      {[](auto& c) { c.server_timeout = 0; }, "--server-timeout is 0"},
      {[](auto& c) { c.workers = 4, c.min_workers = 2; }, "--mode sync waits for every trainer"},
      {[](auto& c) { c.workers = 4, c.min_workers = 2, c.mode = "ssp"; }, "--mode ssp waits"},
      {[](auto& c) {
         c.model = "ctr-dnn", c.workers = 4, c.min_workers = 2, c.mode = "async";
         c.delay_compensation = 0.1;
       },
       "--delay-compensation needs"},
      {[](auto& c) { c.server_away = "never"; }, "--server-away is 'never'"},
      {[](auto& c) { c.server_away = "stale"; }, "--server-away stale goes with --mode async"},
      {[](auto& c) { c.server_away = "stale", c.mode = "ssp"; }, "--server-away stale goes"},
      {[](auto& c) { c.workers = 2, c.shards = 6; }, "--workers 2 times a power of two"},
      {[](auto& c) { c.workers = 2, c.shards = 5; }, "--workers 2 times a power of two"},
      {[](auto& c) { c.mode = "geo"; }, "--optimizer sgd without --momentum, not adam"},
      {[](auto& c) { c.delay_compensation = 0.1; }, "--delay-compensation goes with --mode async"},
      {[](auto& c) { c.start_workers = 2; }, "--start-workers, --store and --chaos"},
  };
  for (const Case& wrong : cases) {
    TrainConfig config;
    config.strategy = "ps";
    wrong.change(config);
    EXPECT_THAT(Resolve(config, Vgg16Card(), 2),
                StatusIs(Code::kInvalidArgument, HasSubstr(wrong.message)));
  }
}

TEST(Resolve, TakesWhatServersCanDo) {
  const std::vector<std::function<void(TrainConfig&)>> cases{
      [](auto&) {},
      [](auto& c) { c.workers = 3, c.shards = 12, c.servers = 2; },
      [](auto& c) { c.model = "ctr-dnn", c.workers = 2, c.shards = 6; },
      [](auto& c) {
        c.model = "ctr-dnn", c.mode = "async", c.workers = 4, c.min_workers = 2, c.shards = 5;
      },
      [](auto& c) { c.mode = "geo", c.optimizer = "sgd", c.workers = 4, c.min_workers = 2; },
      [](auto& c) { c.mode = "half-async", c.server_away = "stale"; },
      [](auto& c) { c.mode = "async", c.delay_compensation = 0.1; },
      [](auto& c) { c.mode = "geo", c.optimizer = "sgd"; },
      [](auto& c) { c.mode = "ssp", c.staleness = 0; },
      [](auto& c) { c.chaos = "kill=server:0@step1"; },
  };
  for (const auto& change : cases) {
    TrainConfig config;
    config.strategy = "ps";
    change(config);
    EXPECT_THAT(Resolve(config, Vgg16Card(), 2), IsOk());
  }
}

TEST(Identity, TheModeOfServersCountsTheirNumberDoesNot) {
  TrainConfig first = Resolved();
  first.strategy = "ps";
  TrainConfig second = first;
  second.servers = 7;
  second.wal = "off";
  second.geo_steps = 9;  // of another mode
  EXPECT_THAT(Differences(first.Identity(), second.Identity()), IsEmpty());
  second.mode = "geo";
  EXPECT_THAT(Differences(first.Identity(), second.Identity()),
              ElementsAre("geo-steps: checkpoint (none), now 9", "mode: checkpoint sync, now geo"));
  EXPECT_THAT(
      Differences(Resolved().Identity(), first.Identity()),
      ElementsAre("mode: checkpoint (none), now sync", "strategy: checkpoint (none), now ps"));
}

TEST(Identity, SaysWhatDiffersAndIgnoresWhatDoesNotMatter) {
  const TrainConfig first = Resolved();
  TrainConfig second = first;
  second.run = "elsewhere";
  second.epochs = 7;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()), IsEmpty());
  second.batch = 64;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()),
              ElementsAre("batch: checkpoint 128, now 64"));
}

TEST(Identity, ACosineScheduleDependsOnItsEnd) {
  TrainConfig first = Resolved();
  first.lr_schedule = "cosine";
  TrainConfig second = first;
  second.epochs = 7;
  EXPECT_THAT(Differences(first.Identity(), second.Identity()),
              ElementsAre("epochs: checkpoint 1, now 7"));
}

}  // namespace
}  // namespace paceline::job

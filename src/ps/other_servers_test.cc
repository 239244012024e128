#include "ps/other_servers.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "ps/core_test_util.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::ps {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

class OtherServersTest : public ::testing::Test {
 protected:
  // Folders of a run with so many servers.
  std::vector<std::string> Folders(const std::string& run, std::uint32_t servers) {
    std::vector<std::string> folders;
    folders.reserve(servers);
    for (std::uint32_t i = 0; i < servers; ++i) {
      folders.push_back(dir_ / (run + "-" + std::to_string(i)));
      std::filesystem::create_directory(folders.back());
    }
    return folders;
  }
  TestServers Open(const std::vector<std::string>& folders,
                   const std::vector<std::string>& load_from) {
    std::vector<std::unique_ptr<ServerCore>> cores;
    for (std::uint32_t i = 0; i < folders.size(); ++i) {
      auto core = ServerCore::Open({.file_system = &fs_,
                                    .folder = folders[i],
                                    .index = i,
                                    .servers = static_cast<std::uint32_t>(folders.size()),
                                    .group = std::chrono::milliseconds(0),
                                    .load_from = load_from});
      EXPECT_THAT(core, IsOk());
      if (core.ok()) cores.push_back(std::move(*core));
    }
    return TestServers(std::move(cores));
  }
  Result<std::unique_ptr<ServerCore>> Load(const std::vector<std::string>& from) {
    return ServerCore::Open({.file_system = &fs_, .load_from = from});
  }
  // A run of two trainers up to `batch`, stopped properly.
  std::vector<std::string> Leave(const std::string& run, std::uint32_t servers,
                                 const JobSpec& spec) {
    const auto folders = Folders(run, servers);
    TestServers cores = Open(folders, {});
    cores.Begin(spec);
    PushBatch(cores, spec, 0);
    for (std::uint32_t i = 0; i < servers; ++i) EXPECT_THAT(cores[i].Snapshot(), IsOk());
    return folders;
  }
  static void PushBatch(TestServers& servers, const JobSpec& spec, std::uint64_t batch) {
    for (const std::uint64_t trainer : {0U, 1U}) {
      CounterRng rng(testing::TestSeed(), Purpose::kTest, 50 + trainer, batch);
      servers.Push(RandomPush(spec, trainer, batch, rng));
    }
  }

  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  disk::PosixFileSystem fs_;
};

TEST_F(OtherServersTest, AJobMovesToAnyNumberOfServers) {
  const JobSpec spec = SelectiveJob(Apply::kTogether, 2);
  TestServers expected(1, {});
  expected.Begin(spec);
  std::vector<std::string> from;
  std::uint64_t batch = 0;
  for (const std::uint32_t count : {2U, 3U, 1U, 5U, 2U, 4U}) {
    const auto folders = Folders("run" + std::to_string(batch), count);
    for (const bool again : {false, true}) {
      // The second time from its own folder: what was loaded is durable at once.
      TestServers servers = Open(folders, again ? std::vector<std::string>() : from);
      servers.Begin(spec);
      EXPECT_EQ(servers[0].StatusNow().version, batch);
      EXPECT_EQ(servers.Values(), expected.Values()) << count << " servers";
      if (!again) continue;
      PushBatch(servers, spec, batch);  // the optimisers have moved, too
      PushBatch(expected, spec, batch);
      EXPECT_EQ(servers.Values(), expected.Values()) << count << " servers";
      EXPECT_EQ(servers.TableCounts(), expected.TableCounts());
      for (std::uint32_t i = 0; i < count; ++i) EXPECT_THAT(servers[i].Snapshot(), IsOk());
    }
    from = folders;
    ++batch;
  }
  EXPECT_GT(expected.TableCounts()[5], 0U);  // some were evicted
}

TEST_F(OtherServersTest, WhatDoesNotBelongTogetherIsRefused) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  JobSpec other_spec = spec;
  other_spec.fingerprint = "lr=2";
  const auto run = Leave("run", 2, spec), other = Leave("other", 2, other_spec);
  EXPECT_THAT(Load(run), IsOk());
  EXPECT_THAT(Load({run[0]}), StatusIs(Code::kBadCheckpoint, HasSubstr("1 folders")));
  EXPECT_THAT(Load({run[0], run[0]}), StatusIs(Code::kBadCheckpoint, HasSubstr("twice")));
  EXPECT_THAT(Load({run[0], other[1]}),
              StatusIs(Code::kBadCheckpoint, HasSubstr("lr: (none) / 2")));
  EXPECT_THAT(Load(Folders("empty", 1)), StatusIs(Code::kBadCheckpoint, HasSubstr("empty-0")));
  EXPECT_THAT(
      ServerCore::Open({.file_system = &fs_, .folder = run[0], .servers = 2, .load_from = other}),
      StatusIs(Code::kInvalidArgument, HasSubstr("not empty")));
}

TEST_F(OtherServersTest, ServersThatWereNotStoppedTogetherAreRefused) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  const auto run = Leave("run", 2, spec);
  const auto push_to_second = [&](std::uint64_t trainer) {
    auto core = ServerCore::Open(
        {.file_system = &fs_, .folder = run[1], .index = 1, .servers = 2, .load_from = {}});
    ASSERT_THAT(core, IsOk());
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 60, 0);
    const MessageBytes message = MessageFor(RandomPush(spec, trainer, 1, rng), spec, 2, 1);
    ASSERT_THAT((*core)->Push(AsBytes(message)), IsOk());
    if (trainer == 0) return;  // dies here
    EXPECT_THAT((*core)->Snapshot(), IsOk());
  };
  push_to_second(0);
  EXPECT_THAT(Load(run), StatusIs(Code::kBadCheckpoint, HasSubstr(run[1] + " has 1 log records")));
  push_to_second(1);
  EXPECT_THAT(Load(run), StatusIs(Code::kBadCheckpoint, HasSubstr("other pushes than " + run[0])));
}

TEST_F(OtherServersTest, AnUnfinishedRoundIsRefused) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  const auto run = Folders("run", 1);
  {
    TestServers servers = Open(run, {});
    servers.Begin(spec);
    CounterRng rng(testing::TestSeed(), Purpose::kTest, 61, 0);
    servers.Push(RandomPush(spec, 1, 0, rng));
    ASSERT_THAT(servers[0].Snapshot(), IsOk());
  }
  EXPECT_THAT(Load(run), StatusIs(Code::kBadCheckpoint, HasSubstr("not all trainers")));
}

}  // namespace
}  // namespace paceline::ps

// A server's core with a folder: restarts, crashes, damage.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "ps/core_test_util.h"
#include "ps/log_record.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::ps {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using Action = disk::FaultPlan::Action;

// Each push is a function of its name: whoever repeats it sends the same.
TestPush PushNamed(const JobSpec& spec, std::uint64_t lease, std::uint64_t batch) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 1000 + lease, batch);
  return RandomPush(spec, lease, batch, rng);
}

bool HasText(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Flips a bit of a file.
void Damage(const std::string& path, std::size_t at) {
  std::string bytes = testing::ReadFile(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  testing::WriteFile(path, bytes);
}

class DurableCoreTest : public ::testing::Test {
 protected:
  ServerCoreOptions Options(disk::FileSystem& fs) {
    return {.file_system = &fs, .folder = dir_.path(), .wal = Wal::kAlways};
  }
  std::vector<std::string> Files(const std::string& prefix) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (entry.path().filename().string().starts_with(prefix)) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }

  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  disk::PosixFileSystem fs_;
};

TEST_F(DurableCoreTest, ARestartChangesNothing) {
  for (const Apply apply : {Apply::kTogether, Apply::kAtOnce}) {
    for (const char* store : {"memory", "rocksdb"}) {
      std::filesystem::remove_all(dir_.path());
      std::filesystem::create_directory(dir_.path());
      const JobSpec spec = TestJob(apply, 2);
      TestServers expected(1, {});
      expected.Begin(spec);
      for (std::uint64_t batch = 0; batch < 6; ++batch) {
        ServerCoreOptions options = Options(fs_);
        options.table_store = store;
        TestServers servers(1, options);
        EXPECT_EQ(servers[0].recovery().snapshot, batch > 3);
        EXPECT_EQ(servers[0].recovery().replayed, batch > 3 ? 2 * batch - 7 : 2 * batch);
        servers.Begin(spec);
        EXPECT_EQ(servers.Values(), expected.Values());
        for (const std::uint64_t trainer : {0U, 1U}) {
          servers.Push(PushNamed(spec, trainer, batch));
          expected.Push(PushNamed(spec, trainer, batch));
          // In the middle of a round: a push waits.
          if (batch == 3 && trainer == 0) {
            EXPECT_THAT(servers[0].Snapshot(), IsOk());
          }
        }
        EXPECT_EQ(servers[0].StatusNow().version, batch + 1);
        EXPECT_EQ(servers.Values(), expected.Values());
      }
      EXPECT_EQ(Files("snapshot-").size(), 1U);
    }
  }
}

// The push comes from the thread that writes the snapshot: if pushes waited for it, it would hang.
TEST_F(DurableCoreTest, PushesGoOnWhileASnapshotIsWritten) {
  const JobSpec spec = TestJob(Apply::kTogether, 1);
  std::unique_ptr<TestServers> servers;
  bool pushed = false;
  disk::FaultyFileSystem watched(fs_, {}, [&](const std::string& operation) {
    const bool begins = operation.starts_with("create ") && HasText(operation, "snapshot-");
    if (!begins || pushed) return;
    pushed = true;
    servers->Push(PushNamed(spec, 0, 1));
  });
  servers = std::make_unique<TestServers>(1, Options(watched));
  servers->Begin(spec);
  servers->Push(PushNamed(spec, 0, 0));
  ASSERT_THAT((*servers)[0].Snapshot(), IsOk());
  EXPECT_TRUE(pushed);
  const std::vector<float> values = servers->Values();
  servers.reset();
  TestServers again(1, Options(fs_));
  EXPECT_TRUE(again[0].recovery().snapshot);
  EXPECT_EQ(again[0].recovery().replayed, 1U);
  again.Begin(spec);
  EXPECT_EQ(again.Values(), values);
}

TEST_F(DurableCoreTest, WithoutALogOnlySnapshotsAreKept) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  std::vector<float> saved;
  for (const bool again : {false, true}) {
    ServerCoreOptions options = Options(fs_);
    options.wal = Wal::kOff;
    TestServers servers(1, options);
    servers.Begin(spec);
    if (again) {
      EXPECT_EQ(servers.Values(), saved);
      EXPECT_EQ(*servers[0].NextBatch(0), 1U);
      continue;
    }
    servers.Push(PushNamed(spec, 0, 0));
    EXPECT_THAT(servers[0].Snapshot(), IsOk());
    saved = servers.Values();
    const MessageBytes message = MessageFor(PushNamed(spec, 0, 1), spec, 1, 0);
    const auto pushed = servers[0].Push(AsBytes(message));
    ASSERT_THAT(pushed, IsOk());
    EXPECT_EQ(pushed->record, 0U);
    EXPECT_THAT(AwaitDurable(servers[0], 0), IsOk());
  }
}

TEST_F(DurableCoreTest, ALongLogAsksForASnapshot) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  ServerCoreOptions options = Options(fs_);
  options.snapshot_log_bytes = 2000;
  TestServers servers(1, options);
  EXPECT_THAT(servers[0].Snapshot(), IsOk());  // there is nothing yet
  servers.Begin(spec);
  EXPECT_FALSE(servers[0].WantsSnapshot());
  std::uint64_t batch = 0;
  while (!servers[0].WantsSnapshot()) servers.Push(PushNamed(spec, 0, batch++));
  EXPECT_GT(batch, 1U);
  EXPECT_GT(servers[0].StatusNow().log_bytes, 2000U);
  EXPECT_THAT(servers[0].Snapshot(), IsOk());
  EXPECT_FALSE(servers[0].WantsSnapshot());
  EXPECT_EQ(servers[0].StatusNow().log_bytes, 0U);
  EXPECT_EQ(servers[0].StatusNow().snapshots, 1U);
  EXPECT_EQ(Files("wal-").size(), 1U);
}

TEST_F(DurableCoreTest, APushAsksForASnapshot) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  for (const Wal wal : {Wal::kAlways, Wal::kOff}) {
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    ServerCoreOptions options = Options(fs_);
    options.wal = wal;
    {
      TestServers servers(1, options);
      servers.Begin(spec);
      servers.Push(PushNamed(spec, 0, 0));
      EXPECT_FALSE(servers[0].WantsSnapshot());
      TestPush saving = PushNamed(spec, 0, 1);
      saving.save = true;
      servers.Push(saving);
      EXPECT_TRUE(servers[0].WantsSnapshot());
      EXPECT_THAT(servers[0].Snapshot(), IsOk());
      EXPECT_FALSE(servers[0].WantsSnapshot());
    }
    TestServers again(1, options);
    EXPECT_FALSE(again[0].WantsSnapshot());
    EXPECT_EQ(*again[0].NextBatch(0), 2U);
  }
}

TEST_F(DurableCoreTest, TwoSnapshotsAreKeptWithTheLogOfTheOlder) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  TestServers servers(1, Options(fs_));
  servers.Begin(spec);
  for (std::uint64_t batch = 0; batch < 5; ++batch) {
    servers.Push(PushNamed(spec, 0, batch));
    ASSERT_THAT(servers[0].Snapshot(), IsOk());
    EXPECT_EQ(Files("snapshot-").size(), batch == 0 ? 1U : 2U);
    EXPECT_EQ(Files("wal-").size(), batch == 0 ? 1U : 2U);
  }
}

// What was written is read again before anything older goes.
TEST_F(DurableCoreTest, ASnapshotThatReadsDifferentlyReplacesNothing) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  std::vector<float> values;
  {
    std::atomic<bool> damages = false;  // the thread of the log asks too
    disk::FaultyFileSystem forgetful(fs_, {}, [&](const std::string& operation) {
      const bool reads = operation.starts_with("read ") && HasText(operation, "snapshot-");
      if (reads && damages.exchange(false)) Damage(Files("snapshot-").back(), 200);
    });
    TestServers servers(1, Options(forgetful));
    servers.Begin(spec);
    for (std::uint64_t batch = 0; batch < 2; ++batch) {
      servers.Push(PushNamed(spec, 0, batch));
      ASSERT_THAT(servers[0].Snapshot(), IsOk());
    }
    servers.Push(PushNamed(spec, 0, 2));
    values = servers.Values();
    damages = true;
    EXPECT_THAT(servers[0].Snapshot(), StatusIs(Code::kDisk, HasSubstr("reads differently")));
  }
  EXPECT_EQ(Files("snapshot-").size(), 3U);  // one of them set aside
  TestServers again(1, Options(fs_));
  EXPECT_EQ(again[0].recovery().replayed, 1U);
  again.Begin(spec);
  EXPECT_EQ(again.Values(), values);
}

TEST_F(DurableCoreTest, AnotherServersFolderIsRefused) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  for (const bool snapshot : {false, true}) {
    {
      TestServers servers(1, Options(fs_));
      servers.Begin(spec);
      if (snapshot) {
        EXPECT_THAT(servers[0].Snapshot(), IsOk());
      }
    }
    ServerCoreOptions options = Options(fs_);
    options.servers = 2;
    EXPECT_THAT(ServerCore::Open(options), StatusIs(Code::kMismatch, HasSubstr("server 0 of 1")));
  }
}

TEST_F(DurableCoreTest, ATornTailIsCutAndDamageInTheMiddleIsRefused) {
  const JobSpec spec = TestJob(Apply::kAtOnce, 1);
  std::vector<float> after_two;
  {
    TestServers servers(1, Options(fs_));
    servers.Begin(spec);
    servers.Push(PushNamed(spec, 0, 0));
    servers.Push(PushNamed(spec, 0, 1));
    after_two = servers.Values();
    servers.Push(PushNamed(spec, 0, 2));
  }
  const std::string log = Files("wal-").front();
  const std::string whole = testing::ReadFile(log);
  testing::WriteFile(log, whole.substr(0, whole.size() - kRecordOverhead - 5));  // and the mark
  {
    TestServers servers(1, Options(fs_));
    EXPECT_GT(servers[0].recovery().torn_bytes, 0U);
    EXPECT_EQ(servers[0].recovery().replayed, 2U);
    servers.Begin(spec);
    EXPECT_EQ(servers.Values(), after_two);
    EXPECT_TRUE(std::filesystem::exists(log + ".broken"));
  }
  Damage(log, whole.size() / 2);
  EXPECT_THAT(ServerCore::Open(Options(fs_)), StatusIs(Code::kBadCheckpoint, HasSubstr(log + ":")));
}

TEST_F(DurableCoreTest, AnOlderSnapshotAndItsLogReplaceADamagedOne) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  std::vector<float> values;
  {
    TestServers servers(1, Options(fs_));
    servers.Begin(spec);
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
      for (const std::uint64_t trainer : {0U, 1U}) servers.Push(PushNamed(spec, trainer, batch));
      if (batch < 3) {
        ASSERT_THAT(servers[0].Snapshot(), IsOk());
      }
    }
    values = servers.Values();
  }
  const std::string path = Files("snapshot-").back();
  Damage(path, 300);
  {
    TestServers servers(1, Options(fs_));
    ASSERT_EQ(servers[0].recovery().damaged.size(), 1U);
    EXPECT_THAT(servers[0].recovery().damaged[0], HasSubstr(path + ".broken"));
    EXPECT_EQ(servers[0].recovery().replayed, 4U);
    EXPECT_TRUE(std::filesystem::exists(path + ".broken"));
    servers.Begin(spec);
    EXPECT_EQ(servers.Values(), values);
    EXPECT_TRUE(servers[0].WantsSnapshot());
    EXPECT_THAT(servers[0].Snapshot(), IsOk());
  }
  // All of them: the newest is named, and everything stays.
  const std::vector<std::string> both = Files("snapshot-");
  Damage(both[0], 300);
  Damage(both.back(), 300);
  EXPECT_THAT(ServerCore::Open(Options(fs_)),
              StatusIs(Code::kBadCheckpoint, HasSubstr(both.back())));
  EXPECT_EQ(Files("snapshot-"), both);
}

TEST_F(DurableCoreTest, ADamagedSnapshotIsRefusedWithItsName) {
  const JobSpec spec = TestJob(Apply::kTogether, 2);
  {
    TestServers servers(1, Options(fs_));
    servers.Begin(spec);
    servers.Push(PushNamed(spec, 0, 0));
    ASSERT_THAT(servers[0].Snapshot(), IsOk());
  }
  const std::string path = Files("snapshot-").front();
  const std::string whole = testing::ReadFile(path);
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 11, 0);
  for (int i = 0; i < 60; ++i) {
    const std::size_t at = rng.Below(static_cast<std::uint32_t>(whole.size()));
    testing::WriteFile(path, whole.substr(0, at));
    EXPECT_THAT(ServerCore::Open(Options(fs_)), StatusIs(Code::kBadCheckpoint, HasSubstr(path)));
    testing::WriteFile(path, whole);
    Damage(path, at);
    EXPECT_THAT(ServerCore::Open(Options(fs_)),
                AnyOf(StatusIs(Code::kBadCheckpoint, HasSubstr(path)),
                      StatusIs(Code::kMismatch, HasSubstr("version"))))
        << "byte " << at;
  }
  testing::WriteFile(path, whole);
  EXPECT_THAT(ServerCore::Open(Options(fs_)), IsOk());
}

struct ChaosJob {
  const char* name;
  Apply apply;
  bool compensated;
  bool selective;  // SelectiveJob()
};

class CrashingCoreTest : public DurableCoreTest, public ::testing::WithParamInterface<ChaosJob> {
 protected:
  static constexpr std::uint64_t kTrainers = 3;

  static JobSpec Job() {
    JobSpec spec = GetParam().selective ? SelectiveJob(GetParam().apply, kTrainers)
                                        : TestJob(GetParam().apply, kTrainers);
    if (GetParam().compensated) spec.delay_compensation = 0.5F;
    return spec;
  }

  // One life: works until the disk fails. Remembers what was pushed, and the values after it.
  void Live(const disk::FaultPlan& plan, CounterRng& rng) {
    disk::FaultyFileSystem faulty(fs_, plan);
    auto opened = ServerCore::Open(Options(faulty));
    if (!opened.ok()) return;  // died while it recovered
    TestServers servers(std::move(*opened));
    const JobSpec spec = Job();
    if (!servers.TryBegin(spec).ok()) return;
    const std::uint64_t pushes = servers[0].StatusNow().pushes;
    ASSERT_GE(pushes, acked_);
    ASSERT_LE(pushes, values_.size() - 1);
    values_.resize(pushes + 1);
    order_.resize(pushes);
    ASSERT_EQ(servers.Values(), values_.back()) << "after " << pushes << " pushes";
    while (order_.size() < 120 && Step(servers, rng)) {
    }
  }

  // False when the disk failed.
  bool Step(TestServers& servers, CounterRng& rng) {
    const JobSpec spec = Job();
    ServerCore& core = servers[0];
    const std::uint64_t trainer = rng.Below(kTrainers);
    const std::uint64_t batch = *core.NextBatch(trainer);
    if (rng.Below(12) == 0) return core.Snapshot().ok();
    Touch(core, rng.Below(kTrainers), rng);  // not always who pushes next: delays differ
    if (batch > 0 && rng.Below(4) == 0) {
      const MessageBytes old = MessageFor(PushNamed(spec, trainer, batch - 1), spec, 1, 0);
      EXPECT_TRUE(core.Push(AsBytes(old))->duplicate);
    }
    const bool waits = spec.apply == Apply::kTogether && batch > core.StatusNow().version + 1;
    if (waits) return true;
    const MessageBytes message = MessageFor(PushNamed(spec, trainer, batch), spec, 1, 0);
    const auto pushed = core.Push(AsBytes(message));
    if (!pushed.ok()) return false;
    order_.emplace_back(trainer, batch);
    values_.push_back(servers.Values());
    if (!AwaitDurable(core, pushed->record).ok()) return false;
    acked_ = order_.size();
    return true;
  }

  // Pulls as a trainer does: compensation depends on it, and nothing else may.
  static void Touch(ServerCore& core, std::uint64_t trainer, CounterRng& rng) {
    std::vector<std::int64_t> ids(rng.Below(6));
    for (std::int64_t& id : ids) id = rng.Below(kTestIds);
    std::vector<float> rows(ids.size() * 3), dense(61);
    PullRequest request{.trainer = trainer, .rows = {}, .dense = dense};
    request.rows.push_back({.table = 0, .ids = ids, .out = rows});
    EXPECT_THAT(core.Pull(request, nullptr), IsOk());
  }

  std::vector<std::pair<std::uint64_t, std::uint64_t>> order_;  // trainer and batch
  std::vector<std::vector<float>> values_;                      // [i]: after i pushes
  std::size_t acked_ = 0;
};

TEST_P(CrashingCoreTest, RecoversWhatItWas) {
  const JobSpec spec = Job();
  {
    TestServers fresh(1, {});
    fresh.Begin(spec);
    values_ = {fresh.Values()};
  }
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 12, 0);
  int lives = 0;
  while (order_.size() < 120 && !HasFatalFailure()) {
    ASSERT_LT(++lives, 1000);
    const Action action = rng.Below(2) == 0 ? Action::kFailFrom : Action::kShortWrite;
    Live({action, 1 + rng.Below(150), EIO}, rng);
  }
  EXPECT_GT(lives, 3);
  acked_ = std::min(acked_, order_.size());
  Live({}, rng);  // compares once more
  if (GetParam().compensated) return;
  TestServers expected(1, {});
  expected.Begin(spec);
  for (const auto& [trainer, batch] : order_) expected.Push(PushNamed(spec, trainer, batch));
  EXPECT_EQ(expected.Values(), values_.back());
  auto opened = ServerCore::Open(Options(fs_));
  ASSERT_THAT(opened, IsOk());
  TestServers recovered(std::move(*opened));
  recovered.Begin(spec);
  EXPECT_EQ(recovered.TableCounts(), expected.TableCounts());
  EXPECT_EQ(expected.TableCounts()[2] > 0, GetParam().selective);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, CrashingCoreTest,
    ::testing::Values(ChaosJob{"together", Apply::kTogether, false, false},
                      ChaosJob{"at_once", Apply::kAtOnce, false, false},
                      ChaosJob{"compensated", Apply::kAtOnce, true, false},
                      ChaosJob{"selective_together", Apply::kTogether, false, true},
                      ChaosJob{"selective_at_once", Apply::kAtOnce, false, true}),
    [](const auto& job) { return std::string(job.param.name); });

}  // namespace
}  // namespace paceline::ps

#include "job/server_folders.h"

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

class ServerFoldersTest : public ::testing::Test {
 protected:
  // Servers that have run; `stopped` as they should be.
  void Leave(std::uint32_t servers, bool stopped = true) {
    for (std::uint32_t i = 0; i < servers; ++i) {
      std::filesystem::create_directories(ServerFolder(run_, i));
      auto core = ps::ServerCore::Open({.file_system = &fs_,
                                        .folder = ServerFolder(run_, i),
                                        .index = i,
                                        .servers = servers,
                                        .group = std::chrono::milliseconds(0),
                                        .load_from = {}});
      ASSERT_THAT(core, IsOk());
      ps::JobSpec job{.fingerprint = "test"};
      job.tables.push_back({.options = {.name = "words", .dim = 2}});
      ASSERT_THAT((*core)->Configure(job), IsOk());
      if (stopped) {
        ASSERT_THAT((*core)->Snapshot(), IsOk());
      }
      WriteRecord(i, servers);
    }
  }
  void WriteRecord(std::uint32_t index, std::uint32_t servers) {
    testing::WriteFile(
        ServerStatusFile(run_, index),
        fmt::format(R"({{"endpoint":"127.0.0.1:1","pid":1,"servers":{}}})", servers));
  }
  std::vector<std::string> Prepare(std::uint64_t servers) {
    auto folders = PrepareServerFolders(fs_, run_, servers);
    EXPECT_THAT(folders, IsOk());
    return folders.ok() ? *folders : std::vector<std::string>();
  }
  std::string Before(int number, int index) const {
    return fmt::format("{}/servers/before-{}/server-{}", run_, number, index);
  }
  void Clear() {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_ + "/servers");
  }

  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  const std::string run_ = dir_ / "run";
  disk::PosixFileSystem fs_;
};

TEST_F(ServerFoldersTest, OnlyAnotherNumberMovesThem) {
  Clear();
  EXPECT_THAT(Prepare(2), IsEmpty());  // a new run
  Leave(2);
  EXPECT_THAT(Prepare(2), IsEmpty());
  EXPECT_THAT(Prepare(3), ElementsAre(Before(1, 0), Before(1, 1)));
  EXPECT_FALSE(std::filesystem::exists(ServerFolder(run_, 0)));
  // The launcher died before the new ones were ready.
  EXPECT_THAT(Prepare(3), ElementsAre(Before(1, 0), Before(1, 1)));
  WriteRecord(1, 3);
  EXPECT_THAT(Prepare(3), ElementsAre(Before(1, 0), Before(1, 1)));
  EXPECT_THAT(PrepareServerFolders(fs_, run_, 1),
              StatusIs(Code::kMismatch, HasSubstr("records of 1 of 3 servers")));
  Leave(3);
  EXPECT_THAT(Prepare(3), IsEmpty());
  EXPECT_THAT(Prepare(1), ElementsAre(Before(2, 0), Before(2, 1), Before(2, 2)));
}

TEST_F(ServerFoldersTest, ServersThatWereKilledStayWhereTheyAre) {
  Clear();
  Leave(2, /*stopped=*/false);
  EXPECT_THAT(PrepareServerFolders(fs_, run_, 3),
              StatusIs(Code::kBadCheckpoint, HasSubstr("trained with --servers 2")));
  EXPECT_TRUE(std::filesystem::exists(ServerFolder(run_, 1)));
  EXPECT_THAT(Prepare(2), IsEmpty());
}

// Whatever operation the launcher dies in, the next one finds all of the earlier servers.
TEST_F(ServerFoldersTest, AMoveThatWasInterruptedIsFinished) {
  for (std::uint64_t operation = 1;; ++operation) {
    Clear();
    Leave(2);
    disk::FaultyFileSystem faulty(
        fs_, {.action = disk::FaultPlan::Action::kFailFrom, .at = operation, .error = EIO});
    const bool done = PrepareServerFolders(faulty, run_, 3).ok();
    const auto folders = Prepare(3);
    EXPECT_THAT(folders, ElementsAre(Before(1, 0), Before(1, 1))) << operation;
    for (const std::string& folder : folders) EXPECT_TRUE(std::filesystem::exists(folder));
    if (done) {
      EXPECT_GT(operation, 5U);
      return;
    }
  }
}

}  // namespace
}  // namespace paceline::job

// A store that dies or fails at every one of its operations.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "store/state_store.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::store {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Optional;
using testing::StatusIs;

// What is on disk when the store under test opens.
enum class Before {
  kNothing,  // so that the first Save makes the log
  kLog,      // so that it adds a record
  kFull,     // so that it writes a new log
  kTorn,     // so that opening repairs first
};

constexpr std::size_t kLimit = 4000;
constexpr std::size_t kStateBytes = 600;

std::string State(int number) {
  std::string state = fmt::format("state {} ", number);
  state.resize(kStateBytes, static_cast<char>('a' + number));
  return state;
}

int RunInChild(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);  // no destructors, no second report from gtest
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

class FileStoreCrashTest : public ::testing::TestWithParam<Before> {
 protected:
  void SetUp() override {
    void* const shared =
        ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    saved_ = static_cast<int*>(shared);
  }
  void TearDown() override { ::munmap(saved_, sizeof(int)); }

  // The log as GetParam() says; returns the number of the state in it, 0 for none.
  int Prepare() {
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    if (GetParam() == Before::kNothing) return 0;
    const int states = GetParam() == Before::kFull ? 6 : 2;
    for (int n = 1; n <= states; ++n) {
      auto store = Open(posix_);
      EXPECT_THAT(store, IsOk());
      EXPECT_THAT((*store)->Save(State(n)), IsOk());
    }
    if (GetParam() != Before::kTorn) return states;
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
    return states - 1;
  }

  Result<std::unique_ptr<StateStore>> Open(disk::FileSystem& fs) {
    return OpenStateStore(
        "file:" + path_,
        {.id = "run", .owner = "pid 12 host a", .file_system = &fs, .compact_bytes = kLimit});
  }

  // Opens, loads and saves twice; stops at the first error.
  Status Work(disk::FileSystem& fs, int before) {
    PACELINE_ASSIGN(const auto store, Open(fs));
    PACELINE_ASSIGN(const auto loaded, store->Load());
    for (int n = before + 1; n <= before + 2; ++n) {
      PACELINE_TRY(store->Save(State(n)));
      *saved_ = n;
    }
    return {};
  }

  std::uint64_t CountOperations() {
    disk::FaultyFileSystem counting(posix_, {});
    EXPECT_THAT(Work(counting, Prepare()), IsOk());
    return counting.operations();
  }

  // The number of the state that a successor finds; it can save, too.
  int Found() {
    auto store = Open(posix_);
    EXPECT_THAT(store, IsOk());
    if (!store.ok()) return -1;
    const auto loaded = (*store)->Load();
    EXPECT_THAT(loaded, IsOk());
    int found = -1;
    for (int n = 1; n < 20; ++n) {
      if (loaded.ok() && *loaded == State(n)) found = n;
    }
    if (loaded.ok() && !loaded->has_value()) found = 0;
    EXPECT_THAT((*store)->Save(State(20)), IsOk());
    EXPECT_THAT(*(*store)->Load(), Optional(Eq(State(20))));
    store->reset();
    store = Open(posix_);
    EXPECT_THAT(store, IsOk());
    EXPECT_THAT(*(*store)->Load(), Optional(Eq(State(20))));
    EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
    return found;
  }

  const testing::TempDir dir_{testing::TempDir::Place::kMemory};
  const std::string path_ = dir_ / "log";
  disk::PosixFileSystem posix_;
  int* saved_ = nullptr;  // the last state whose Save was OK; shared with the child that dies
};

TEST_P(FileStoreCrashTest, ADeathAnywhereLeavesTheStateBeforeOrAfter) {
  const std::uint64_t operations = CountOperations();
  ASSERT_GT(operations, 8U);
  for (const char* action : {"kill-before", "kill-torn", "kill-after"}) {
    for (std::uint64_t n = 1; n <= operations; ++n) {
      const std::string plan = fmt::format("{}={}", action, n);
      SCOPED_TRACE(plan);
      const int before = *saved_ = Prepare();
      const int status = RunInChild([&] {
        disk::FaultyFileSystem faulty(posix_, *disk::ParseFaultPlan(plan));
        static_cast<void>(Work(faulty, before));
      });
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
      EXPECT_THAT(Found(), AnyOf(Eq(*saved_), Eq(*saved_ + 1)));
    }
    EXPECT_GT(*saved_, 0) << "the last death comes after the first Save";
  }
}

TEST_P(FileStoreCrashTest, AFailureAnywhereIsReportedAndLeavesTheStateBeforeOrAfter) {
  const std::uint64_t operations = CountOperations();
  for (const char* action : {"fail", "fail-from", "short-write"}) {
    for (std::uint64_t n = 1; n <= operations; ++n) {
      const std::string plan = fmt::format("{}={}:ENOSPC", action, n);
      SCOPED_TRACE(plan);
      const int before = *saved_ = Prepare();
      disk::FaultyFileSystem faulty(posix_, *disk::ParseFaultPlan(plan));
      EXPECT_THAT(Work(faulty, before), StatusIs(Code::kDisk, HasSubstr(dir_.path().string())));
      EXPECT_THAT(Found(), AnyOf(Eq(*saved_), Eq(*saved_ + 1)));
    }
  }
}

TEST_P(FileStoreCrashTest, AfterAFailureTheSameStoreLoadsOneOfTheTwoAndSavesAgain) {
  const std::uint64_t operations = CountOperations();
  for (const char* action : {"fail", "short-write"}) {
    for (std::uint64_t n = 1; n <= operations; ++n) {
      for (const bool load : {false, true}) {
        SCOPED_TRACE(fmt::format("{}={} load {}", action, n, load));
        const int before = Prepare();
        disk::FaultyFileSystem faulty(posix_,
                                      *disk::ParseFaultPlan(fmt::format("{}={}:EIO", action, n)));
        auto store = Open(faulty);
        if (!store.ok()) continue;
        const Status saved = (*store)->Save(State(before + 1));
        if (load && !saved.ok()) {
          const auto loaded = (*store)->Load();
          ASSERT_THAT(loaded, IsOk());
          const std::optional<std::string> old =
              before == 0 ? std::nullopt : std::optional(State(before));
          EXPECT_THAT(*loaded, AnyOf(Eq(old), Optional(Eq(State(before + 1)))));
        }
        const Status again = (*store)->Save(State(before + 2));
        if (!again.ok()) {
          ASSERT_THAT((*store)->Save(State(before + 2)), IsOk());
        }
        store->reset();
        EXPECT_EQ(Found(), before + 2);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(States, FileStoreCrashTest,
                         ::testing::Values(Before::kNothing, Before::kLog, Before::kFull,
                                           Before::kTorn),
                         [](const auto& test) {
                           switch (test.param) {
                             case Before::kNothing: return "Nothing";
                             case Before::kLog: return "Log";
                             case Before::kFull: return "Full";
                             case Before::kTorn: break;
                           }
                           return "Torn";
                         });

}  // namespace
}  // namespace paceline::store

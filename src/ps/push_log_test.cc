#include "ps/push_log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "disk/faulty_file_system.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "wire/bytes.h"

namespace paceline::ps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

class PushLogTest : public ::testing::Test {
 protected:
  // Reads everything from segment `first` on into read_, then goes on with a new segment.
  Result<std::unique_ptr<PushLog>> Open(std::uint64_t first = 1) {
    read_.clear();
    recovery_ = {};
    return PushLog::Open(
        options_, first,
        [this](const LogRecord& record) {
          read_.push_back(
              fmt::format("{}:{}:{}:{}", record.type, record.generation, record.step,
                          std::string(reinterpret_cast<const char*>(record.payload.data()),
                                      record.payload.size())));
          return Status();
        },
        recovery_);
  }

  static LogRecord Record(std::uint64_t step, std::string_view text) {
    return {.type = 3, .generation = 9, .step = step, .payload = wire::AsBytes(text)};
  }

  // A log of three records in segment 1, made durable together, and the mark that says so.
  void WriteThree() {
    options_.group = 1h;  // the end of the log is the end of the group
    auto log = Open();
    ASSERT_THAT(log, IsOk());
    for (const char* text : {"one", "two", "three"}) {
      ASSERT_THAT((*log)->Append(Record(1, text)), IsOk());
    }
  }

  std::string Path(int segment) const {
    return fmt::format("{}/wal-{:016}.log", options_.folder, segment);
  }
  std::size_t Bytes(int segment) const { return std::filesystem::file_size(Path(segment)); }
  void Flip(int segment, std::size_t offset) const {
    std::fstream file(Path(segment), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  disk::PosixFileSystem fs_;
  PushLogOptions options_{.file_system = &fs_, .folder = dir_.path(), .group = 0ms};
  std::vector<std::string> read_;
  LogRecovery recovery_;
};

TEST_F(PushLogTest, RecordsComeBackInOrder) {
  WriteThree();
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(read_, ElementsAre("3:9:1:one", "3:9:1:two", "3:9:1:three"));
  EXPECT_EQ(recovery_.segments, 1U);
  EXPECT_EQ(recovery_.records, 3U);
  EXPECT_EQ(recovery_.torn_bytes, 0U);
}

TEST_F(PushLogTest, LongRecordsOfAnOwnerAreWrittenFromWhereTheyLie) {
  const auto text = std::make_shared<const std::string>(std::size_t{1} << 20, 'x');
  const std::weak_ptr<const std::string> owner = text;
  {
    auto log = Open();
    ASSERT_THAT(log, IsOk());
    ASSERT_THAT((*log)->Append(Record(1, "before"), text), IsOk());
    ASSERT_THAT((*log)->Append(Record(1, *text), text), IsOk());
    ASSERT_THAT((*log)->Append(Record(1, *text), text), IsOk());
    ASSERT_THAT((*log)->Append(Record(1, "after")), IsOk());
  }
  EXPECT_EQ(owner.use_count(), 1) << "it was let go";
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(read_,
              ElementsAre("3:9:1:before", "3:9:1:" + *text, "3:9:1:" + *text, "3:9:1:after"));
}

TEST_F(PushLogTest, WhoeverWaitsIsToldOnce) {
  options_.group = 1ms;
  auto log = Open();
  ASSERT_THAT(log, IsOk());
  std::atomic<int> told = 0;
  for (int i = 1; i <= 10; ++i) {
    const auto number = (*log)->Append(Record(1, "x"));
    ASSERT_THAT(number, IsOk());
    EXPECT_EQ(*number, static_cast<std::uint64_t>(i));
    (*log)->WhenDurable(*number, [&](const Status& status) {
      EXPECT_THAT(status, IsOk());
      ++told;
    });
  }
  EXPECT_THAT((*log)->AwaitDurable(10), IsOk());
  log->reset();  // its thread has ended
  EXPECT_EQ(told, 10);
}

TEST_F(PushLogTest, ATailThatWasCutAnywhereIsSetAside) {
  WriteThree();
  const std::size_t whole = Bytes(1), mark = kRecordOverhead, last = kRecordOverhead + 5;
  for (std::size_t cut = 1; cut < mark + last; ++cut) {
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    WriteThree();
    std::filesystem::remove(Path(2));  // as if the server had died in segment 1
    std::filesystem::resize_file(Path(1), whole - cut);
    const std::size_t torn = cut <= mark ? mark - cut : mark + last - cut;
    const std::size_t records = cut <= mark ? 3 : 2;
    ASSERT_THAT(Open(), IsOk()) << cut;
    EXPECT_EQ(read_.size(), records) << cut;
    EXPECT_EQ(recovery_.torn_bytes, torn);
    if (torn > 0) {
      EXPECT_EQ(std::filesystem::file_size(Path(1) + ".broken"), torn);
    }
    ASSERT_THAT(Open(), IsOk()) << cut;  // it was repaired
    EXPECT_EQ(recovery_.torn_bytes, 0U);
    EXPECT_EQ(read_.size(), records);
  }
}

TEST_F(PushLogTest, DamageOfWhatWasDurableIsRefusedByPlace) {
  WriteThree();
  std::size_t begin = kSegmentHeaderBytes;
  for (const std::size_t text : {3U, 3U, 5U}) {
    const std::size_t end = begin + kRecordOverhead + text;
    for (std::size_t offset = begin; offset < end; ++offset) {
      Flip(1, offset);
      EXPECT_THAT(Open(),
                  StatusIs(Code::kBadCheckpoint, HasSubstr(fmt::format("{}:{}:", Path(1), begin))))
          << offset;
      Flip(1, offset);
    }
    begin = end;
  }
  ASSERT_THAT(Open(), IsOk());
  EXPECT_EQ(read_.size(), 3U);
}

// A group that was being written when the machine died: its end may be there without its beginning.
TEST_F(PushLogTest, WhatWasNeverDurableMayBeMissingAnywhere) {
  WriteThree();
  std::vector<std::byte> group(4096);  // of which the disk had written nothing
  // Numbers that look like lengths of records, as those of gradients do.
  for (std::size_t i = 0; i < 100'000; ++i) group.push_back(static_cast<std::byte>(i % 3 == 0));
  EncodeRecord(Record(2, "whole"), group);
  std::ofstream(Path(1), std::ios::app | std::ios::binary)
      .write(reinterpret_cast<const char*>(group.data()),
             static_cast<std::streamsize>(group.size()));
  ASSERT_THAT(Open(), IsOk());
  EXPECT_THAT(read_, ElementsAre("3:9:1:one", "3:9:1:two", "3:9:1:three"));
  EXPECT_EQ(recovery_.torn_bytes, group.size());
}

TEST_F(PushLogTest, ATornSegmentThatIsNotTheLastIsRefused) {
  WriteThree();
  ASSERT_THAT(Open(), IsOk());  // begins segment 2
  std::filesystem::resize_file(Path(1), Bytes(1) - 1);
  EXPECT_THAT(Open(), StatusIs(Code::kBadCheckpoint, HasSubstr("segment behind it")));
}

TEST_F(PushLogTest, AMissingSegmentIsRefused) {
  WriteThree();
  { ASSERT_THAT(Open(), IsOk()); }
  { ASSERT_THAT(Open(), IsOk()); }
  std::filesystem::remove(Path(2));
  EXPECT_THAT(Open(), StatusIs(Code::kBadCheckpoint, HasSubstr("is missing")));
}

TEST_F(PushLogTest, WhatIsNotALogIsRefused) {
  std::ofstream(Path(1)) << "something else that is long enough";
  EXPECT_THAT(Open(), StatusIs(Code::kBadData, HasSubstr("not a write-ahead log")));
}

TEST_F(PushLogTest, ASnapshotNeedsOnlyWhatCameAfterIt) {
  std::uint64_t segment = 0;
  {
    auto log = Open();
    ASSERT_THAT(log, IsOk());
    ASSERT_THAT((*log)->Append(Record(1, "before")), IsOk());
    const auto started = (*log)->StartSegment();
    ASSERT_THAT(started, IsOk());
    segment = *started;
    ASSERT_THAT((*log)->Append(Record(2, "after")), IsOk());
    ASSERT_THAT((*log)->AwaitDurable(2), IsOk());
    ASSERT_THAT((*log)->DropBefore(segment), IsOk());
    EXPECT_FALSE(std::filesystem::exists(Path(1)));
  }
  ASSERT_THAT(Open(segment), IsOk());
  EXPECT_THAT(read_, ElementsAre("3:9:2:after"));
}

TEST_F(PushLogTest, LongLogsAreCutIntoSegments) {
  options_.segment_bytes = 200;
  std::vector<std::string> wrote;
  {
    auto log = Open();
    ASSERT_THAT(log, IsOk());
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::string text(50, static_cast<char>('a' + i));
      wrote.push_back(fmt::format("3:9:{}:{}", i, text));
      const auto number = (*log)->Append(Record(i, text));
      ASSERT_THAT(number, IsOk());
      ASSERT_THAT((*log)->AwaitDurable(*number), IsOk());
    }
  }
  ASSERT_THAT(Open(), IsOk());
  EXPECT_EQ(read_, wrote);
  EXPECT_GT(recovery_.segments, 5U);
}

TEST_F(PushLogTest, ManyThreadsShareOneLog) {
  constexpr int kThreads = 4, kEach = 50;
  options_.group = 1ms;
  options_.pending_bytes = 100;  // so that they hold each other up
  {
    auto log = Open();
    ASSERT_THAT(log, IsOk());
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto number =
              (*log)->Append(Record(static_cast<std::uint64_t>(i), std::to_string(t)));
          EXPECT_THAT(number, IsOk());
          if (i % 10 == 0) {
            EXPECT_THAT((*log)->AwaitDurable(*number), IsOk());
          }
        }
      });
    }
  }
  ASSERT_THAT(Open(), IsOk());
  EXPECT_EQ(read_.size(), static_cast<std::size_t>(kThreads * kEach));
  for (int t = 0; t < kThreads; ++t) {
    std::vector<std::string> mine;
    std::ranges::copy_if(read_, std::back_inserter(mine), [&](const std::string& text) {
      return text.ends_with(fmt::format(":{}", t));
    });
    for (int i = 0; i < kEach; ++i) {
      EXPECT_EQ(mine.at(static_cast<std::size_t>(i)), fmt::format("3:9:{}:{}", i, t));
    }
  }
}

TEST_F(PushLogTest, AfterAnErrorOfTheDiskNothingIsAccepted) {
  disk::FaultyFileSystem broken(fs_, {disk::FaultPlan::Action::kFailFrom, 12, ENOSPC});
  options_.file_system = &broken;
  auto log = Open();
  ASSERT_THAT(log, IsOk());
  Status failed;
  for (int i = 0; i < 20 && failed.ok(); ++i) {
    const auto number = (*log)->Append(Record(1, "x"));
    failed = number.ok() ? (*log)->AwaitDurable(*number) : number.status();
  }
  EXPECT_THAT(failed, StatusIs(Code::kDisk, HasSubstr("No space left")));
  EXPECT_THAT((*log)->Append(Record(1, "x")), StatusIs(Code::kDisk, HasSubstr("write-ahead log")));
  EXPECT_THAT((*log)->StartSegment(), StatusIs(Code::kDisk, HasSubstr("write-ahead log")));
}

TEST_F(PushLogTest, ADiskThatFailsFromTheBeginningIsReported) {
  for (std::uint64_t at = 1; at <= 8; ++at) {
    disk::FaultyFileSystem broken(fs_, {disk::FaultPlan::Action::kFailFrom, at, EIO});
    options_.file_system = &broken;
    EXPECT_THAT(Open(), StatusIs(Code::kDisk, ::testing::_)) << "operation " << at;
  }
}

TEST_F(PushLogTest, ARecordThatIsTooLargeIsRefused) {
  auto log = Open();
  ASSERT_THAT(log, IsOk());
  const std::vector<std::byte> huge(kMaxRecordPayload + 1);
  EXPECT_THAT((*log)->Append({.payload = huge}),
              StatusIs(Code::kInvalidArgument, HasSubstr("at most")));
  EXPECT_THAT(read_, IsEmpty());
}

}  // namespace
}  // namespace paceline::ps

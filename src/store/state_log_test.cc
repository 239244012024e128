#include "store/state_log.h"

#include <gmock/gmock.h>

#include "base/rng.h"
#include "store/state_store.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "wire/endian.h"

namespace paceline::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

using Bytes = std::vector<std::byte>;

Bytes Log(const std::vector<std::string>& states) {
  Bytes log = EncodeLogHeader();
  for (const std::string& state : states) {
    const Bytes record = EncodeRecord(state);
    log.insert(log.end(), record.begin(), record.end());
  }
  return log;
}

// Every byte differs from run to run of the rng, so that a mixture of two states shows.
std::string State(std::uint64_t number, std::size_t size) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 2, number);
  std::string state(size, ' ');
  for (char& c : state) c = static_cast<char>(rng.Next() & 0xFF);
  return state;
}

TEST(StateLog, TheBytesAreTheDocumentedOnes) {
  const Bytes log = Log({"ab"});
  ASSERT_EQ(log.size(), 12U + 8U + 2U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(log.data()), 8), "PACELOG\n");
  EXPECT_EQ(wire::LoadU32(&log[8]), 1U);
  EXPECT_EQ(wire::LoadU32(&log[12]), 2U);
  EXPECT_EQ(wire::LoadU32(&log[16]), 0x9F6582ADU);  // CRC-32C of 02 00 00 00 61 62
  EXPECT_EQ(static_cast<char>(log[20]), 'a');
}

TEST(StateLog, TheLastRecordCounts) {
  for (const std::size_t size : {0U, 1U, 7U, 4096U}) {
    const auto log = DecodeLog(Log({State(1, 5), State(2, 0), State(3, size)}), "log");
    ASSERT_THAT(log, IsOk());
    EXPECT_EQ(log->newest, State(3, size));
    EXPECT_EQ(log->records, 3U);
    EXPECT_EQ(log->whole_bytes, 12 + 3 * 8 + 5 + size);
  }
}

TEST(StateLog, ALastRecordThatIsCutOffAnywhereIsLeftOut) {
  const Bytes whole = Log({State(1, 9), State(2, 40)});
  const std::size_t first_end = 12 + 8 + 9;
  for (std::size_t size = first_end; size < whole.size(); ++size) {
    const auto log = DecodeLog(std::span(whole).first(size), "log");
    ASSERT_THAT(log, IsOk()) << size;
    EXPECT_EQ(log->newest, State(1, 9));
    EXPECT_EQ(log->whole_bytes, first_end);
  }
}

TEST(StateLog, ALastRecordWithAnyWrongBitIsLeftOut) {
  const Bytes whole = Log({State(1, 9), State(2, 20)});
  const std::size_t first_end = 12 + 8 + 9;
  for (std::size_t bit = first_end * 8; bit < whole.size() * 8; ++bit) {
    Bytes log = whole;
    log[bit / 8] ^= std::byte(1U << (bit % 8));
    const auto decoded = DecodeLog(log, "log");
    ASSERT_THAT(decoded, IsOk()) << bit;
    EXPECT_EQ(decoded->newest, State(1, 9));
    EXPECT_EQ(decoded->whole_bytes, first_end);
  }
}

TEST(StateLog, PagesThatNeverReachedTheDiskAreZeros) {
  for (const std::size_t zeros : {1U, 8U, 100U, 4096U, 100'000U}) {
    Bytes log = Log({State(1, 9)});
    const std::size_t end = log.size();
    log.resize(end + zeros);
    const auto decoded = DecodeLog(log, "log");
    ASSERT_THAT(decoded, IsOk()) << zeros;
    EXPECT_EQ(decoded->whole_bytes, end);
  }
  // The first page is missing, the others are there.
  Bytes log = Log({State(1, 9), State(2, 20'000)});
  std::fill_n(log.begin() + 29, 4096, std::byte{0});
  EXPECT_THAT(DecodeLog(log, "log"), IsOk());
}

TEST(StateLog, AWrongBitBeforeAWholeRecordIsRefusedWithItsPlace) {
  const Bytes whole = Log({State(1, 9), State(2, 20), State(3, 30), State(4, 5)});
  const std::size_t second = 12 + 8 + 9;
  for (std::size_t bit = second * 8; bit < (second + 8 + 20) * 8; ++bit) {
    Bytes log = whole;
    log[bit / 8] ^= std::byte(1U << (bit % 8));
    EXPECT_THAT(DecodeLog(log, "dir/log"),
                StatusIs(Code::kBadCheckpoint, AllOf(HasSubstr("dir/log:29: damaged"),
                                                     HasSubstr("another one behind it at 57"))))
        << bit;
  }
}

TEST(StateLog, DamageIsSeenEvenWhenTheLastRecordIsCutOffToo) {
  Bytes log = Log({State(1, 9), State(2, 20), State(3, 30), State(4, 5)});
  log[40] ^= std::byte{1};
  log.pop_back();
  EXPECT_THAT(DecodeLog(log, "log"), StatusIs(Code::kBadCheckpoint, HasSubstr("log:29")));
}

TEST(StateLog, MoreThanOneRecordsWorthBehindDamageIsNoCrash) {
  Bytes log = Log({State(1, 9)});
  log.resize(log.size() + 8 + kMaxStateBytes + 1);
  EXPECT_THAT(DecodeLog(log, "log"), StatusIs(Code::kBadCheckpoint, HasSubstr("log:29")));
}

TEST(StateLog, TheFirstRecordIsNeverTorn) {
  const Bytes whole = Log({State(1, 9)});
  for (std::size_t size = 12; size < whole.size(); ++size) {
    EXPECT_THAT(DecodeLog(std::span(whole).first(size), "log"),
                StatusIs(Code::kBadCheckpoint, HasSubstr("log:12")));
  }
}

TEST(StateLog, OtherFilesAreNotTouched) {
  EXPECT_THAT(DecodeLog({}, "log"), StatusIs(Code::kBadData, HasSubstr("log is not a state log")));
  Bytes log = Log({"a"});
  EXPECT_THAT(DecodeLog(std::span(log).first(11), "log"),
              StatusIs(Code::kBadData, HasSubstr("log")));
  log[8] = std::byte{2};
  EXPECT_THAT(DecodeLog(log, "log"), StatusIs(Code::kMismatch, HasSubstr("version 2")));
  log[0] = std::byte{0};
  EXPECT_THAT(DecodeLog(log, "log"), StatusIs(Code::kBadData, HasSubstr("log")));
}

TEST(StateLog, ASearchThatWouldTakeTooLongRefuses) {
  // A cut-off record in which every fourth byte begins the length of a large one.
  Bytes log = Log({"a"});
  const std::size_t begin = log.size();
  log.resize(begin + kMaxStateBytes);
  for (std::size_t at = begin; at + 4 <= log.size(); at += 4) {
    wire::StoreU32(&log[at], kMaxStateBytes / 2 + 1);
  }
  log[begin + 3] = std::byte{0xFF};
  EXPECT_THAT(DecodeLog(log, "log"), StatusIs(Code::kBadCheckpoint, HasSubstr("log:21")));
}

}  // namespace
}  // namespace paceline::store

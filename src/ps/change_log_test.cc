#include "ps/change_log.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "wire/bytes.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Pair;
using testing::StatusIs;

using Changes = std::vector<std::pair<ChangeType, std::string>>;

ChangeVisitor Collect(Changes& changes) {
  return [&changes](ChangeType type, std::span<const std::byte> payload) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % 8, 0U);
    changes.emplace_back(
        type, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
    return Status();
  };
}

class ChangeLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<ChangeLog> Open() {
    found_.clear();
    recovery_ = {};
    auto log = ChangeLog::Open({.file_system = &fs_, .folder = dir_.path()}, 1, Collect(found_),
                               recovery_, 4);
    EXPECT_THAT(log, IsOk());
    return log.ok() ? std::move(*log) : nullptr;
  }

  testing::TempDir dir_;
  disk::PosixFileSystem fs_;
  Changes found_;
  LogRecovery recovery_;
};

TEST_F(ChangeLogTest, PartsAreOneChangeAgain) {
  {
    const auto log = Open();
    ASSERT_THAT(log->Append(ChangeType::kJob, {}), IsOk());
    ASSERT_THAT(log->Append(ChangeType::kPush, wire::AsBytes("exactly8")), IsOk());
    ASSERT_THAT(log->Append(ChangeType::kPush, wire::AsBytes("and nine.")), IsOk());
    EXPECT_EQ(log->last_record(), 6U);
  }
  Open();
  EXPECT_EQ(recovery_.records, 6U);
  EXPECT_THAT(found_, ElementsAre(Pair(ChangeType::kJob, ""), Pair(ChangeType::kPush, "exactly8"),
                                  Pair(ChangeType::kPush, "and nine.")));
}

TEST_F(ChangeLogTest, AChangeWithoutItsEndNeverWas) {
  {
    const auto log = Open();
    ASSERT_THAT(log->Append(ChangeType::kPush, wire::AsBytes("one")), IsOk());
    // As if the server had died between the parts.
    const std::string part = "half";
    ASSERT_THAT(log->records().Append(
                    {.type = 4, .generation = 2, .step = 2, .payload = wire::AsBytes(part)}),
                IsOk());
  }
  {
    const auto log = Open();
    EXPECT_EQ(found_.size(), 1U);
    EXPECT_EQ(recovery_.torn_bytes, 4U);
    ASSERT_THAT(log->Append(ChangeType::kPush, wire::AsBytes("two")), IsOk());
  }
  Open();
  EXPECT_THAT(found_, ElementsAre(Pair(ChangeType::kPush, "one"), Pair(ChangeType::kPush, "two")));
  EXPECT_EQ(recovery_.torn_bytes, 0U);
}

TEST(ChangeAssembler, APartWithoutItsBeginningIsDamage) {
  Changes changes;
  ChangeAssembler assembler(Collect(changes));
  const std::uint64_t second_of_three = std::uint64_t{1} << 32 | 3;
  EXPECT_THAT(assembler.Take({.type = 4, .generation = second_of_three, .step = 1}),
              StatusIs(Code::kBadCheckpoint, HasSubstr("part 1 of change 1")));
  EXPECT_THAT(assembler.Take({.type = 4, .generation = 3, .step = 1}), IsOk());
  EXPECT_THAT(assembler.Take({.type = 4, .generation = second_of_three, .step = 2}),
              StatusIs(Code::kBadCheckpoint, HasSubstr("part 1 of change 2")));
}

}  // namespace
}  // namespace paceline::ps

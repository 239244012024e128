#include "ps/push_ledger.h"

#include <set>

#include <gmock/gmock.h>

#include "base/rng.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using Answer = PushLedger::Answer;
using ::testing::HasSubstr;
using testing::StatusIs;

Answer Ask(const PushLedger& ledger, std::uint64_t lease, std::uint64_t batch) {
  const auto answer = ledger.Check(lease, batch);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return answer.ok() ? *answer : Answer::kDuplicate;
}

TEST(PushLedgerTest, APushThatIsRepeatedIsADuplicate) {
  PushLedger ledger;
  EXPECT_EQ(Ask(ledger, 0, 0), Answer::kApply);
  ledger.Applied(0, 0, false);
  EXPECT_EQ(Ask(ledger, 0, 0), Answer::kDuplicate);
  EXPECT_EQ(Ask(ledger, 0, 1), Answer::kApply);
  EXPECT_EQ(ledger.NextBatch(0), 1U);
}

TEST(PushLedgerTest, NobodySkipsABatch) {
  PushLedger ledger;
  EXPECT_THAT(ledger.Check(4, 1), StatusIs(Code::kProtocol, HasSubstr("the next is 0")));
  ledger.Applied(4, 0, /*last=*/true);
  EXPECT_THAT(ledger.Check(4, 1), StatusIs(Code::kProtocol, HasSubstr("there is none")));
}

TEST(PushLedgerTest, FinishedLeasesTakeNoRoomAndAreNotForgotten) {
  PushLedger ledger;
  for (const std::uint64_t lease : {2U, 0U, 1U}) ledger.Applied(lease, 0, /*last=*/true);
  wire::ByteWriter writer;
  ledger.Write(writer);
  EXPECT_EQ(writer.Take().size(), 20U);
  for (std::uint64_t lease = 0; lease < 3; ++lease)
    EXPECT_EQ(Ask(ledger, lease, 0), Answer::kDuplicate);
  EXPECT_EQ(Ask(ledger, 3, 0), Answer::kApply);
}

TEST(PushLedgerTest, ComesBackFromASnapshotAndNoCutIsTaken) {
  PushLedger ledger;
  ledger.Applied(0, 0, true);
  ledger.Applied(3, 0, false);
  ledger.Applied(3, 1, false);
  ledger.Applied(2, 0, true);
  wire::ByteWriter writer;
  ledger.Write(writer);
  const std::vector<std::byte> bytes = writer.Take();
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    wire::ByteReader reader(std::span<const std::byte>(bytes).first(length));
    const PushLedger read = PushLedger::Read(reader);
    EXPECT_EQ(reader.Finish("ledger").ok(), length == bytes.size()) << length;
    if (length == bytes.size()) {
      EXPECT_EQ(read, ledger);
    }
  }
}

// Trainers die in mid-lease and others repeat what they may have pushed.
TEST(PushLedgerTest, WhateverIsRepeatedEachBatchIsAppliedOnce) {
  CounterRng random(7, Purpose::kTest, 2, 0);
  for (int round = 0; round < 50; ++round) {
    PushLedger ledger;
    std::multiset<std::pair<std::uint64_t, std::uint64_t>> applied;
    constexpr std::uint64_t kLeases = 10, kBatches = 7;
    for (std::uint64_t lease = 0; lease < kLeases; ++lease) {
      for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
        if (Ask(ledger, lease, batch) == Answer::kApply) {
          ledger.Applied(lease, batch, batch + 1 == kBatches);
          applied.emplace(lease, batch);
        }
        if (random.Below(3) == 0) batch -= random.Below(static_cast<std::uint32_t>(batch + 1));
      }
    }
    EXPECT_EQ(applied.size(), kLeases * kBatches);
    EXPECT_EQ(ledger.pushes(), kLeases * kBatches);
  }
}

}  // namespace
}  // namespace paceline::ps

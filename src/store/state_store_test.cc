// What every store promises, on every store.
#include "store/state_store.h"

#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/rng.h"
#include "store/etcd_test_util.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::store {
namespace {

using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Optional;
using testing::StatusIs;

enum class Kind { kFile, kEtcd };

std::string StoredState(std::uint64_t number, std::size_t size) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, 3, number);
  std::string state(size + 4, ' ');
  for (std::size_t at = 0; at < size; at += 4) {
    const std::uint32_t word = rng.Next();
    std::memcpy(&state[at], &word, 4);
  }
  state.resize(size);
  return state;
}

class StateStoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (GetParam() == Kind::kFile) return;
    if (const auto missing = EtcdMissing()) GTEST_SKIP() << *missing;
    if (server_ == nullptr) server_ = EtcdServer::Start();
    ASSERT_NE(server_, nullptr);
  }

  // `name` tells apart two coordinators.
  std::string Where(const std::string& name = "one") {
    return GetParam() == Kind::kFile ? "file:" + (dir_ / name) : server_->where();
  }
  StateStoreOptions Options(const std::string& name = "one") {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::string id = test.substr(0, test.find('/')) + "-" + name;
    return {.id = id,
            .owner = "pid 12 host a",
            .lease_ttl = std::chrono::seconds(2),
            .request_timeout = std::chrono::seconds(20)};
  }
  std::unique_ptr<StateStore> Open(const std::string& name = "one") {
    auto store = OpenStateStore(Where(name), Options(name));
    EXPECT_THAT(store, IsOk());
    return store.ok() ? std::move(*store) : nullptr;
  }

  testing::TempDir dir_;
  static std::unique_ptr<EtcdServer> server_;
};

std::unique_ptr<EtcdServer> StateStoreTest::server_;

TEST_P(StateStoreTest, BeforeTheFirstSaveThereIsNothing) {
  for (int opened = 0; opened < 2; ++opened) {
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    const auto loaded = store->Load();
    ASSERT_THAT(loaded, IsOk());
    EXPECT_FALSE(loaded->has_value());
  }
}

TEST_P(StateStoreTest, ASuccessorFindsAnyBytesOfAnySize) {
  std::uint64_t number = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                                 std::size_t{4097}, kMaxStateBytes - 1, kMaxStateBytes}) {
    const std::string state = StoredState(++number, size);
    const auto first = Open();
    ASSERT_NE(first, nullptr);
    ASSERT_THAT(first->Save(state), IsOk()) << size;
    EXPECT_TRUE(*first->Load() == state) << size;
  }
  const auto second = Open();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(*second->Load() == StoredState(number, kMaxStateBytes));
}

TEST_P(StateStoreTest, TheNewestSaveCounts) {
  {
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    for (std::uint64_t n = 0; n < 50; ++n) {
      ASSERT_THAT(store->Save(StoredState(n, 100 + n % 7)), IsOk());
      EXPECT_THAT(*store->Load(), Optional(Eq(StoredState(n, 100 + n % 7))));
    }
    ASSERT_THAT(store->Save(StoredState(0, 100)), IsOk());  // back to an older one
  }
  EXPECT_THAT(*Open()->Load(), Optional(Eq(StoredState(0, 100))));
}

TEST_P(StateStoreTest, MoreSavesOfLargeStatesThanALogHolds) {
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  for (std::uint64_t n = 0; n < 5; ++n) {
    ASSERT_THAT(store->Save(StoredState(n, kMaxStateBytes)), IsOk());
    EXPECT_TRUE(*store->Load() == StoredState(n, kMaxStateBytes));
  }
}

TEST_P(StateStoreTest, AStateThatIsTooLargeIsRefusedAndTheOneBeforeStays) {
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  ASSERT_THAT(store->Save("small"), IsOk());
  EXPECT_THAT(store->Save(std::string(kMaxStateBytes + 1, 'x')),
              StatusIs(Code::kInvalidArgument, HasSubstr("1048577 bytes")));
  EXPECT_THAT(*store->Load(), Optional(Eq("small")));
}

TEST_P(StateStoreTest, ASecondOwnerIsRefusedWithTheNameOfTheFirst) {
  const auto first = Open();
  ASSERT_NE(first, nullptr);
  ASSERT_THAT(first->Save("of the first"), IsOk());
  StateStoreOptions options = Options();
  options.owner = "pid 13 host b";
  EXPECT_THAT(
      OpenStateStore(Where(), options),
      StatusIs(Code::kAlreadyRunning, AllOf(HasSubstr("pid 12 host a"), HasSubstr("in use"))));
  ASSERT_THAT(first->Save("still of the first"), IsOk());
  EXPECT_THAT(*first->Load(), Optional(Eq("still of the first")));
}

TEST_P(StateStoreTest, TwoCoordinatorsDoNotMeet) {
  const auto one = Open("one");
  const auto two = Open("two");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  ASSERT_THAT(one->Save("1"), IsOk());
  EXPECT_FALSE(two->Load()->has_value());
  ASSERT_THAT(two->Save("2"), IsOk());
  EXPECT_THAT(*one->Load(), Optional(Eq("1")));
}

TEST_P(StateStoreTest, DescribesItselfForPeople) {
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->Describe(), GetParam() == Kind::kFile
                                   ? "file " + (dir_ / "one")
                                   : fmt::format("etcd {} /paceline/{}",
                                                 server_->endpoint().ToString(), Options().id));
}

TEST_P(StateStoreTest, OptionsThatMakeNoSenseAreRefused) {
  const auto refused = [&](auto change, const char* text) {
    StateStoreOptions options = Options();
    change(options);
    EXPECT_THAT(OpenStateStore(Where(), options),
                StatusIs(Code::kInvalidArgument, HasSubstr(text)));
  };
  refused([](auto& options) { options.id = ""; }, "store id ''");
  refused([](auto& options) { options.id = "../x"; }, "store id '../x'");
  refused([](auto& options) { options.id = std::string(129, 'x'); }, "store id");
  refused([](auto& options) { options.owner = ""; }, "owner");
  refused([](auto& options) { options.owner = "two\nlines"; }, "owner");
  refused([](auto& options) { options.lease_ttl = std::chrono::seconds(0); }, "lease of 0 s");
  refused([](auto& options) { options.request_timeout = std::chrono::milliseconds(0); }, "timeout");
  refused([](auto& options) { options.compact_bytes = std::size_t{1} << 30; }, "log limit");
}

INSTANTIATE_TEST_SUITE_P(Stores, StateStoreTest, ::testing::Values(Kind::kFile, Kind::kEtcd),
                         [](const auto& test) {
                           return test.param == Kind::kFile ? "File" : "Etcd";
                         });

TEST(OpenStateStore, RefusesAPlaceThatItDoesNotKnow) {
  const StateStoreOptions options{.id = "run", .owner = "pid 12 host a"};
  for (const char* where : {"", "file", "file:", "etcd:", "etcd:/a:1", "zookeeper://a:1", "/tmp/x",
                            "etcd://", "etcd://host", "etcd://host:port", "etcd://host:1,",
                            "etcd://,host:1", "etcd://host:70000"}) {
    EXPECT_THAT(OpenStateStore(where, options),
                StatusIs(Code::kInvalidArgument, ::testing::StrNe("")))
        << where;
  }
}

}  // namespace
}  // namespace paceline::store

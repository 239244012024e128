// What only the store in etcd has to show, on a real etcd.
#include "store/etcd_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/thread.h"
#include "store/etcd_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::store {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Optional;
using testing::StatusIs;

TEST(WasRenewed, OnlyWhenMoreIsLeftThanTimeAllows) {
  EXPECT_FALSE(WasRenewed(9s, 0ms, 9s));
  EXPECT_FALSE(WasRenewed(9s, 999ms, 9s));  // 9.999 s, then 9.0 s
  EXPECT_TRUE(WasRenewed(9s, 1000ms, 9s));
  EXPECT_FALSE(WasRenewed(9s, 1000ms, 8s));
  EXPECT_TRUE(WasRenewed(9s, 100ms, 10s));
  EXPECT_FALSE(WasRenewed(1s, 900ms, 1s));
  EXPECT_TRUE(WasRenewed(1s, 1000ms, 1s));
  EXPECT_FALSE(WasRenewed(1s, 2500ms, 0s));   // overdue
  EXPECT_FALSE(WasRenewed(0s, 1500ms, -1s));  // it is gone
}

class EtcdStoreTest : public ::testing::Test {
 protected:
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (const auto missing = EtcdMissing()) GTEST_SKIP() << *missing;
    if (server_ == nullptr) server_ = EtcdServer::Start();
    ASSERT_NE(server_, nullptr);
    options_.id = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    keys_.emplace(options_.id);
    client_.emplace(std::vector{server_->endpoint()}, 20'000ms);
  }

  Result<std::unique_ptr<StateStore>> Open(const std::string& owner) {
    options_.owner = owner;
    return OpenStateStore(server_->where(), options_);
  }
  // Takes the lease away from whoever owns, as time would.
  void EndLease() {
    const auto owner = client_->Get(keys_->owner);
    ASSERT_TRUE(owner.ok() && owner->has_value());
    ASSERT_THAT(client_->Revoke((*owner)->lease), IsOk());
  }

  static std::unique_ptr<EtcdServer> server_;
  StateStoreOptions options_{.lease_ttl = 60s, .request_timeout = 20'000ms};
  std::optional<EtcdKeys> keys_;
  std::optional<EtcdClient> client_;
};

std::unique_ptr<EtcdServer> EtcdStoreTest::server_;

TEST_F(EtcdStoreTest, TheKeysAreTheDocumentedOnes) {
  {
    auto store = Open("pid 12 host a");
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->Save("state"), IsOk());
    const auto owner = client_->Get(fmt::format("/paceline/{}/owner", options_.id));
    ASSERT_TRUE(owner.ok() && owner->has_value());
    EXPECT_EQ((*owner)->value, "pid 12 host a");
    EXPECT_EQ(client_->TimeToLive((*owner)->lease)->granted, 60s);
  }
  EXPECT_FALSE(client_->Get(keys_->owner)->has_value()) << "the destructor revokes the lease";
  const auto state = client_->Get(fmt::format("/paceline/{}/state", options_.id));
  ASSERT_TRUE(state.ok() && state->has_value());
  EXPECT_EQ((*state)->value, "state");
  EXPECT_EQ((*state)->lease, 0);
}

TEST_F(EtcdStoreTest, AFencedOwnerCanNeverSaveAgain) {
  auto first = Open("pid 12 host a");
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT((*first)->Save("before"), IsOk());
  EndLease();
  EXPECT_THAT((*first)->Save("late"), StatusIs(Code::kFenced, HasSubstr("nobody yet")));
  auto second = Open("pid 13 host b");
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(*(*second)->Load(), Optional(Eq("before")));
  EXPECT_THAT((*first)->Save("late"), StatusIs(Code::kFenced, HasSubstr("pid 13 host b")));
  ASSERT_THAT((*second)->Save("after"), IsOk());
  EXPECT_THAT((*first)->Save("late"), StatusIs(Code::kFenced, HasSubstr("pid 13 host b")));
  second->reset();
  EXPECT_THAT((*first)->Save("late"), StatusIs(Code::kFenced, HasSubstr("nobody yet")));
  EXPECT_THAT(*(*first)->Load(), Optional(Eq("after")));
}

TEST_F(EtcdStoreTest, ADestroyedFormerOwnerDoesNotDisturbItsSuccessor) {
  auto first = Open("pid 12 host a");
  ASSERT_THAT(first, IsOk());
  EndLease();
  auto second = Open("pid 13 host b");
  ASSERT_THAT(second, IsOk());
  first->reset();
  EXPECT_THAT((*second)->Save("after"), IsOk());
}

TEST_F(EtcdStoreTest, OpeningWaitsForTheLeaseOfADeadOwner) {
  const auto lease = client_->GrantLease(1s);
  ASSERT_THAT(lease, IsOk());
  ASSERT_THAT(
      client_->PutIfAbsent({.key = keys_->owner, .value = "pid 12 host a", .lease = *lease}),
      IsOk());
  auto store = Open("pid 13 host b");
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ((*client_->Get(keys_->owner))->value, "pid 13 host b");
  EXPECT_THAT((*store)->Save("after"), IsOk());
}

TEST_F(EtcdStoreTest, ALivingOwnerKeepsAShortLease) {
  options_.lease_ttl = 1s;
  auto store = Open("pid 12 host a");
  ASSERT_THAT(store, IsOk());
  // Each of these watches the lease for longer than it lasts without renewal.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Open("pid 13 host b"), StatusIs(Code::kAlreadyRunning, HasSubstr("pid 12 host a")));
  }
  EXPECT_THAT((*store)->Save("alive"), IsOk());
}

TEST_F(EtcdStoreTest, WaitingCanBeStopped) {
  const auto lease = client_->GrantLease(600s);
  ASSERT_THAT(lease, IsOk());
  ASSERT_THAT(
      client_->PutIfAbsent({.key = keys_->owner, .value = "pid 12 host a", .lease = *lease}),
      IsOk());
  std::stop_source source;
  options_.stop = source.get_token();
  source.request_stop();
  EXPECT_THAT(Open("pid 13 host b"), StatusIs(Code::kAborted, HasSubstr("pid 12 host a")));
  EXPECT_EQ((*client_->Get(keys_->owner))->value, "pid 12 host a");
}

TEST_F(EtcdStoreTest, AnOwnerWithoutALeaseIsRefusedAtOnce) {
  ASSERT_THAT(client_->PutIfAbsent({.key = keys_->owner, .value = "somebody's hand"}), IsOk());
  EXPECT_THAT(Open("pid 13 host b"),
              StatusIs(Code::kAlreadyRunning,
                       AllOf(HasSubstr("somebody's hand"), HasSubstr("never expires"))));
}

TEST_F(EtcdStoreTest, OneOfTwoOwnersThatStartTogetherWins) {
  std::vector<Result<std::unique_ptr<StateStore>>> stores;
  for (int i = 0; i < 4; ++i) stores.emplace_back(Status::Error(Code::kInternal, "not yet"));
  StateStoreOptions options = options_;
  options.lease_ttl = 2s;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < stores.size(); ++i) {
      threads.push_back(StartThread("opener", [&, i, mine = options]() mutable {
        mine.owner = fmt::format("opener {}", i);
        stores[i] = OpenStateStore(server_->where(), mine);
      }));
    }
  }
  int winners = 0;
  for (auto& store : stores) {
    if (store.ok()) {
      ++winners;
      EXPECT_THAT((*store)->Save("won"), IsOk());
    } else {
      EXPECT_THAT(store, StatusIs(Code::kAlreadyRunning, HasSubstr("opener")));
    }
  }
  EXPECT_EQ(winners, 1);
}

TEST_F(EtcdStoreTest, AnEndpointThatIsDownIsPassedOver) {
  const net::Endpoint dead = UnusedEndpoint();
  options_.owner = "pid 12 host a";
  const std::string where =
      fmt::format("etcd://{},{}", dead.ToString(), server_->endpoint().ToString());
  auto store = OpenStateStore(where, options_);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Save("state"), IsOk());
  EXPECT_THAT(*(*store)->Load(), Optional(Eq("state")));
}

TEST_F(EtcdStoreTest, AStateThatSomebodyElseWroteIsNotedAndReplaced) {
  auto store = Open("pid 12 host a");
  ASSERT_THAT(store, IsOk());
  ASSERT_THAT((*store)->Save("one"), IsOk());
  // Like a Save of our own whose answer was lost: the revision is not the one that we know.
  const auto owner = client_->Get(keys_->owner);
  const auto state = client_->Get(keys_->state);
  const EtcdClient::GuardedPutRequest request{.owner_key = keys_->owner,
                                              .owner_create_revision = (*owner)->create_revision,
                                              .key = keys_->state,
                                              .mod_revision = (*state)->mod_revision};
  ASSERT_TRUE(client_->GuardedPut(request, "two")->done);
  ASSERT_THAT((*store)->Save("two"), IsOk());
  ASSERT_THAT((*store)->Save("three"), IsOk());
  EXPECT_THAT(*(*store)->Load(), Optional(Eq("three")));
  // And a request that was on its way for so long changes nothing any more.
  EXPECT_FALSE(client_->GuardedPut(request, "two")->done);
  EXPECT_THAT(*(*store)->Load(), Optional(Eq("three")));
}

// These stop the server, so each has its own.
class EtcdOutageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto missing = EtcdMissing()) GTEST_SKIP() << *missing;
    server_ = EtcdServer::Start();
    ASSERT_NE(server_, nullptr);
  }

  std::unique_ptr<EtcdServer> server_;
  StateStoreOptions options_{
      .id = "run", .owner = "pid 12 host a", .lease_ttl = 60s, .request_timeout = 20'000ms};
};

TEST_F(EtcdOutageTest, AnEtcdThatDiedIsUnavailableAndNamed) {
  auto store = OpenStateStore(server_->where(), options_);
  ASSERT_THAT(store, IsOk());
  ASSERT_THAT((*store)->Save("one"), IsOk());
  server_->Kill();
  const std::string name = "etcd " + server_->endpoint().ToString();
  EXPECT_THAT((*store)->Save("two"), StatusIs(Code::kUnavailable, HasSubstr(name)));
  EXPECT_THAT((*store)->Load(), StatusIs(Code::kUnavailable, HasSubstr(name)));
  EXPECT_THAT(OpenStateStore(server_->where(), options_),
              StatusIs(Code::kUnavailable, HasSubstr(name)));
}

TEST_F(EtcdOutageTest, ALostAnswerDoesNotBringAnOldStateBack) {
  options_.request_timeout = 300ms;
  Result<std::unique_ptr<StateStore>> store = Status::Error(Code::kInternal, "not yet");
  for (int attempt = 0; attempt < 50 && !store.ok(); ++attempt) {  // a machine may be slow
    store = OpenStateStore(server_->where(), options_);
  }
  ASSERT_THAT(store, IsOk());
  server_->Pause();
  EXPECT_THAT((*store)->Save("lost"), StatusIs(Code::kUnavailable, HasSubstr("does not answer")));
  server_->Resume();
  Status saved = Status::Error(Code::kInternal, "not yet");
  for (int attempt = 0; attempt < 50 && !saved.ok(); ++attempt) saved = (*store)->Save("new");
  ASSERT_THAT(saved, IsOk());
  EtcdClient client({server_->endpoint()}, 20'000ms);
  EXPECT_EQ((*client.Get(EtcdKeys("run").state))->value, "new");
}

}  // namespace
}  // namespace paceline::store

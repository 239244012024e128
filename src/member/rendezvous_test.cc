#include "member/rendezvous.h"

#include <future>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace paceline::member {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

class RendezvousTest : public ::testing::Test {
 protected:
  void Start(std::uint64_t world, std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    world_ = world;
    auto server =
        RendezvousServer::Start(loop_, {.secret = secret_, .world = world, .timeout = timeout});
    ASSERT_THAT(server, IsOk());
    server_ = std::move(*server);
  }

  std::future<Result<wire::View>> Join(std::uint64_t rank, const std::string& fingerprint = "a=1") {
    return std::async(std::launch::async, [this, rank, fingerprint] {
      return JoinRendezvous(
          loop_, {.coordinator = server_->endpoint(),
                  .secret = secret_,
                  .join = {.member = {Rank(rank), "host", "127.0.0.1:" + std::to_string(rank), "k"},
                           .world = world_,
                           .fingerprint = fingerprint},
                  .deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30)});
    });
  }

  net::Loop loop_;
  net::Secret secret_ = *net::Secret::Generate();
  std::uint64_t world_ = 0;
  std::unique_ptr<RendezvousServer> server_;
};

TEST_F(RendezvousTest, EveryRankGetsTheSameView) {
  Start(4);
  std::vector<std::future<Result<wire::View>>> joins;
  for (const std::uint64_t rank : {2U, 0U, 3U, 1U}) joins.push_back(Join(rank));
  std::vector<wire::View> views;
  for (auto& join : joins) {
    auto view = join.get();
    ASSERT_THAT(view, IsOk());
    views.push_back(*view);
  }
  for (const wire::View& view : views) EXPECT_EQ(view, views[0]);
  ASSERT_EQ(views[0].members.size(), 4U);
  EXPECT_EQ(views[0].members[2].address, "127.0.0.1:2");
  EXPECT_EQ(views[0].generation, Generation(1));
  EXPECT_NE(views[0].cluster, 0U);
}

TEST_F(RendezvousTest, RanksThatDisagreeAreToldAboutWhat) {
  Start(2);
  auto a = Join(0, "batch=64;model=vgg16");
  auto b = Join(1, "batch=32;model=vgg16");
  const auto expected = StatusIs(Code::kMismatch, AllOf(HasSubstr("batch:"), HasSubstr("64")));
  EXPECT_THAT(a.get(), expected);
  EXPECT_THAT(b.get(), expected);
}

TEST_F(RendezvousTest, ARankThatDoesNotComeIsNamed) {
  // On a busy machine the others, too, may come after a short time has passed: then with more.
  Status a, b;
  for (auto timeout = std::chrono::milliseconds(100); timeout < std::chrono::minutes(1);
       timeout *= 4) {
    Start(3, timeout);
    auto joining_a = Join(0);
    auto joining_b = Join(2);
    a = joining_a.get().status();
    b = joining_b.get().status();
    if (a.message().find("rank(s) 1 of 3") != std::string::npos) break;
  }
  EXPECT_THAT(a, StatusIs(Code::kTimeout, HasSubstr("rank(s) 1 of 3")));
  EXPECT_THAT(b, StatusIs(Code::kTimeout, HasSubstr("rank(s) 1 of 3")));
}

TEST_F(RendezvousTest, ARankOutsideTheJobIsRefused) {
  Start(2);
  EXPECT_THAT(Join(2).get(), StatusIs(Code::kMismatch, HasSubstr("rank 2 of a job of 2")));
}

TEST_F(RendezvousTest, ARankThatDiesWhileJoiningEndsTheMeeting) {
  Start(2);
  auto a = Join(0);
  auto connection =
      net::ConnectTo(loop_, server_->endpoint(), "coordinator",
                     {.secret = secret_,
                      .self = {wire::Role::kWorker, Rank(1)},
                      .deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30)});
  ASSERT_THAT(connection, IsOk());
  connection->reset();
  EXPECT_THAT(a.get(), StatusIs(Code::kPeerLost, HasSubstr("rank 1 failed to join")));
}

}  // namespace
}  // namespace paceline::member

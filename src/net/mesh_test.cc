#include "net/mesh.h"

#include <atomic>
#include <future>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace paceline::net {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

auto SoonEnough() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

// N ranks in one process, each with its own loop.
struct Node {
  Loop loop;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<Mesh> mesh;
};

class MeshTest : public ::testing::Test {
 protected:
  void Build(std::uint64_t world) {
    wire::View view{.cluster = 9, .generation = Generation(1)};
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      nodes_.push_back(std::make_unique<Node>());
      auto acceptor = Acceptor::Listen(
          nodes_.back()->loop, {.secret = secret_, .self = {wire::Role::kWorker, Rank(rank)}});
      ASSERT_THAT(acceptor, IsOk());
      nodes_.back()->acceptor = std::move(*acceptor);
      view.members.push_back(
          {Rank(rank), "host", nodes_.back()->acceptor->endpoint().ToString(), "kernel"});
    }
    std::vector<std::future<Result<std::unique_ptr<Mesh>>>> meshes;
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      meshes.push_back(std::async(std::launch::async, [&, rank] {
        return Mesh::Connect(nodes_[rank]->loop, *nodes_[rank]->acceptor, view,
                             {.secret = secret_, .self = Rank(rank), .deadline = SoonEnough()});
      }));
    }
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      auto mesh = meshes[rank].get();
      ASSERT_THAT(mesh, IsOk());
      nodes_[rank]->mesh = std::move(*mesh);
    }
  }

  Secret secret_ = *Secret::Generate();
  std::vector<std::unique_ptr<Node>> nodes_;
};

TEST_F(MeshTest, EveryRankReachesEveryOther) {
  Build(4);
  std::vector<std::unique_ptr<Completion>> done;
  std::vector<std::vector<std::byte>> sent(16), got(16);
  for (std::uint64_t a = 0; a < 4; ++a) {
    for (std::uint64_t b = 0; b < 4; ++b) {
      if (a == b) continue;
      sent[4 * a + b].assign(8, static_cast<std::byte>(4 * a + b));
      got[4 * b + a].resize(8);
      done.push_back(std::make_unique<Completion>());
      nodes_[a]->mesh->to(Rank(b)).Send(wire::FrameType::kData, a, sent[4 * a + b],
                                        done.back()->ForSend());
      done.push_back(std::make_unique<Completion>());
      nodes_[b]->mesh->to(Rank(a)).Receive({.tag = a}, got[4 * b + a], done.back()->ForReceive());
    }
  }
  for (const auto& completion : done) ASSERT_THAT(completion->Wait(SoonEnough()), IsOk());
  EXPECT_EQ(got[4 * 3 + 1][0], std::byte{4 * 1 + 3});
}

TEST_F(MeshTest, ALostRankIsNamedByEverySurvivor) {
  Build(4);
  std::vector<std::promise<Closed>> failed(4);
  for (const std::size_t rank : {0U, 1U, 3U}) {
    nodes_[rank]->mesh->WhenFailed(
        [&failed, rank](const Closed& how) { failed[rank].set_value(how); });
  }
  nodes_[2].reset();
  for (const std::size_t rank : {0U, 1U, 3U}) {
    const Closed how = failed[rank].get_future().get();
    EXPECT_EQ(how.blamed, 2U);
    EXPECT_THAT(how.status, StatusIs(Code::kPeerLost, HasSubstr("rank 2")));
  }
}

TEST_F(MeshTest, LeavingIsNoFailure) {
  Build(3);
  std::atomic<int> failures{0};
  for (const auto& node : nodes_) node->mesh->WhenFailed([&](const Closed&) { ++failures; });
  std::vector<std::byte> got(1);
  Completion received;
  nodes_[0]->mesh->to(Rank(2)).Receive({}, got, received.ForReceive());
  nodes_[2]->mesh->Leave();
  EXPECT_THAT(received.Wait(SoonEnough()), StatusIs(Code::kPeerLost, HasSubstr("has left")));
  EXPECT_EQ(failures, 0);
  nodes_.clear();  // while what they count in still exists
}

TEST_F(MeshTest, AnAbortReachesEveryRankWithItsReason) {
  Build(3);
  std::vector<std::promise<Closed>> failed(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    nodes_[rank]->mesh->WhenFailed(
        [&failed, rank](const Closed& how) { failed[rank].set_value(how); });
  }
  nodes_[1]->mesh->Abort({.code = Code::kBadData, .blamed = 1, .text = "rank 1: bad record"});
  for (auto& promise : failed) {
    const Closed how = promise.get_future().get();
    EXPECT_THAT(how.status, StatusIs(Code::kBadData, HasSubstr("rank 1: bad record")));
    EXPECT_EQ(how.blamed, 1U);
  }
}

TEST_F(MeshTest, AMissingRankIsNamedAtTheDeadline) {
  Build(1);
  wire::View view{.cluster = 9, .generation = Generation(2)};
  view.members.push_back({Rank(0), "host", nodes_[0]->acceptor->endpoint().ToString(), "k"});
  view.members.push_back({Rank(1), "elsewhere", "127.0.0.1:1", "k"});
  const auto mesh =
      Mesh::Connect(nodes_[0]->loop, *nodes_[0]->acceptor, view,
                    {.secret = secret_,
                     .self = Rank(0),
                     .deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50)});
  EXPECT_THAT(mesh, StatusIs(Code::kTimeout, HasSubstr("rank 1 (elsewhere")));
}

}  // namespace
}  // namespace paceline::net

// What a trainer that is asked to stop still waits for.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "ps/client.h"
#include "ps/server.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"

namespace paceline::ps {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr std::size_t kFloats = 8;

class ClientStopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto core = ServerCore::Open({.index = 0, .servers = 1});
    ASSERT_THAT(core, IsOk());
    core_ = std::move(*core);
    auto server = Server::Start(loop_, *core_, {.bind = {}, .secret = secret_, .index = 0});
    ASSERT_THAT(server, IsOk());
    server_ = std::move(*server);
  }

  std::unique_ptr<Client> Trainer(const std::function<bool()>& stopped,
                                  std::chrono::milliseconds grace) {
    JobSpec job{.fingerprint = "test", .apply = Apply::kAtOnce, .trainers = 1};
    job.dense.push_back({"w", {kFloats}});
    auto client = Client::Connect(loop_, {.servers = {server_->endpoint()},
                                          .secret = secret_,
                                          .job = job,
                                          .stopped = stopped,
                                          .stop_grace = grace});
    EXPECT_THAT(client, IsOk());
    if (!client.ok()) return nullptr;
    EXPECT_THAT((*client)->Initialise(std::vector<float>(kFloats, 0.0F)), IsOk());
    return std::move(*client);
  }

  static Status PushOnes(Client& client, std::uint64_t batch) {
    const std::vector<float> dense(kFloats, 1.0F);
    Push push{.lease = 0, .batch = batch, .learning_rate = 1};
    push.dense = dense;
    return client.Push(push, {});
  }

  net::Loop loop_;
  net::Secret secret_ = *net::Secret::Generate();
  std::unique_ptr<ServerCore> core_;
  std::unique_ptr<Server> server_;
};

// The server is gone, and a trainer that nobody stops would wait for it for a minute.
TEST_F(ClientStopTest, AFlushThatWaitsEnds) {
  std::promise<void> waits;
  std::atomic<int> asked = 0;
  std::atomic<bool> stopped = false;
  const auto client = Trainer(
      [&] {
        if (asked++ == 0) waits.set_value();
        return stopped.load();
      },
      1ms);
  ASSERT_NE(client, nullptr);
  server_.reset();
  ASSERT_THAT(PushOnes(*client, 0), IsOk());
  auto flushed = std::async(std::launch::async, [&] { return client->Flush(); });
  waits.get_future().wait();
  stopped = true;
  EXPECT_THAT(flushed.get(), StatusIs(Code::kAborted, HasSubstr("server 0")));
}

TEST_F(ClientStopTest, PushesOnTheirWayStillCount) {
  const auto client = Trainer([] { return true; }, 60s);
  ASSERT_NE(client, nullptr);
  for (const std::uint64_t batch : {0U, 1U, 2U}) ASSERT_THAT(PushOnes(*client, batch), IsOk());
  EXPECT_THAT(client->Flush(), IsOk());
  EXPECT_EQ(client->Acknowledged(0), 3U);
}

}  // namespace
}  // namespace paceline::ps

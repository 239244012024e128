// Trainers and servers over real sockets; what a server does with requests is tested without, in
// server_core_test.
#include "ps/client.h"

#include <algorithm>
#include <future>
#include <memory>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "base/mutex.h"
#include "disk/file_system.h"
#include "net/acceptor.h"
#include "ps/server.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::ps {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr std::size_t kDim = 3;

JobSpec Job(std::uint64_t trainers = 1, Apply apply = Apply::kAtOnce) {
  JobSpec job{.fingerprint = "test", .apply = apply, .trainers = trainers};
  job.tables.push_back({.options = {.name = "words", .dim = kDim}});
  job.dense.push_back({"w", {7, 5}});
  job.dense.push_back({"b", {7, 1}});
  return job;
}

struct Running {
  std::unique_ptr<ServerCore> core;
  std::unique_ptr<Server> server;
};

class ClientTest : public ::testing::Test {
 protected:
  void StartServers(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) AddServer({.index = i, .servers = count});
  }

  void AddServer(const ServerCoreOptions& options) {
    auto core = ServerCore::Open(options);
    ASSERT_THAT(core, IsOk());
    running_.push_back({std::move(*core), nullptr});
    StartServer(options.index, {});
    endpoints_.push_back(running_[options.index].server->endpoint());
  }

  void StartServer(std::uint32_t index, const net::Endpoint& bind) {
    auto server = Server::Start(loop_, *running_[index].core,
                                {.bind = bind, .secret = secret_, .index = index});
    ASSERT_THAT(server, IsOk());
    running_[index].server = std::move(*server);
  }

  // By one that knows nothing, at the same place.
  void ReplaceServer(std::uint32_t index) {
    running_[index].server.reset();
    auto core =
        ServerCore::Open({.index = index, .servers = static_cast<std::uint32_t>(running_.size())});
    ASSERT_THAT(core, IsOk());
    running_[index].core = std::move(*core);
    StartServer(index, endpoints_[index]);
  }

  std::unique_ptr<Client> Trainer(const JobSpec& job, std::uint64_t rank = 0,
                                  bool shared_memory = true) {
    auto client = Client::Connect(loop_, {.servers = endpoints_,
                                          .secret = secret_,
                                          .trainer = rank,
                                          .job = job,
                                          .away = 60s,
                                          .shared_memory = shared_memory});
    EXPECT_THAT(client, IsOk());
    return client.ok() ? std::move(*client) : nullptr;
  }

  // One row of ones for each id, and dense gradients of 1.
  static Status PushOnes(Client& client, std::uint64_t lease, std::uint64_t batch,
                         std::span<const std::int64_t> ids) {
    const std::vector<float> rows(ids.size() * kDim, 1.0F);
    const std::vector<float> dense(42, 1.0F);
    Push push{.lease = lease, .batch = batch, .learning_rate = 1};
    push.tables.push_back({0, kDim, ids, rows});
    push.dense = dense;
    return client.Push(push, {});
  }

  net::Loop loop_;
  net::Secret secret_ = *net::Secret::Generate();
  std::vector<Running> running_;
  std::vector<net::Endpoint> endpoints_;
};

TEST_F(ClientTest, RowsAndDenseValuesComeBackFromEveryNumberOfServers) {
  for (const std::uint32_t servers : {1U, 2U, 3U}) {
    running_.clear();
    endpoints_.clear();
    StartServers(servers);
    const JobSpec job = Job();
    const auto client = Trainer(job);
    std::vector<float> first(42);
    std::iota(first.begin(), first.end(), 0.0F);
    ASSERT_THAT(client->Initialise(first), IsOk());
    std::vector<std::int64_t> ids(100);
    std::iota(ids.begin(), ids.end(), -50);
    ASSERT_THAT(PushOnes(*client, 0, 0, ids), IsOk());
    ASSERT_THAT(PushOnes(*client, 0, 1, std::span(ids).first(10)), IsOk());
    ASSERT_THAT(client->Flush(), IsOk());
    std::vector<float> rows(ids.size() * kDim), dense(42);
    const auto pulled = client->Pull({.rows = {{0, ids, rows}}, .dense = dense});
    ASSERT_THAT(pulled, IsOk());
    EXPECT_EQ(pulled->version, 2U);
    EXPECT_EQ(pulled->pushes, std::vector<std::uint64_t>(servers, 2));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(rows[i * kDim], i < 10 ? -2.0F : -1.0F) << i << " on " << servers;
    }
    for (std::size_t i = 0; i < dense.size(); ++i) {
      EXPECT_EQ(dense[i], static_cast<float>(i) - 2.0F);
    }
    EXPECT_THAT(client->NextBatch(0),
                ::testing::Truly([](const auto& next) { return next.ok() && *next == 2; }));
  }
}

// Announced before the push that it waits for, with more ids than fit into one frame's head.
TEST_F(ClientTest, AnAnnouncedPullSeesThePushAfterIt) {
  for (const std::uint32_t servers : {1U, 2U}) {
    for (const bool shared_memory : {true, false}) {
      running_.clear();
      endpoints_.clear();
      StartServers(servers);
      const auto client = Trainer(Job(), 0, shared_memory);
      ASSERT_THAT(client->Initialise(std::vector<float>(42)), IsOk());
      std::vector<std::int64_t> ids(20'000);
      std::iota(ids.begin(), ids.end(), 0);
      std::vector<float> rows(ids.size() * kDim), dense(42);
      for (std::uint64_t batch = 0; batch < 4; ++batch) {
        const PullRequest request{
            .own_batches = batch + 1, .rows = {{0, ids, rows}}, .dense = dense};
        ASSERT_THAT(client->Announce(request), IsOk());
        ASSERT_THAT(PushOnes(*client, 0, batch, ids), IsOk());
        if (batch == 2) {  // somebody else asks meanwhile
          std::vector<float> other(kDim);
          ASSERT_THAT(client->Pull({.own_batches = 3, .rows = {{0, {ids.data(), 1}, other}}}),
                      IsOk());
          EXPECT_EQ(other.front(), -3.0F);
        }
        const auto pulled = client->Pull(request);
        ASSERT_THAT(pulled, IsOk());
        EXPECT_EQ(pulled->pushes, std::vector<std::uint64_t>(servers, batch + 1));
        const auto expected = -static_cast<float>(batch + 1);
        EXPECT_THAT(rows, ::testing::Each(expected));
        EXPECT_THAT(dense, ::testing::Each(expected));
      }
    }
  }
}

// Larger than a frame, and than what is asked for at once.
TEST_F(ClientTest, MessagesOfAnyLengthPass) {
  StartServers(2);
  JobSpec job = Job();
  job.dense.push_back({"large", {1000, 40'000}});  // 160 MB
  const auto client = Trainer(job);
  const auto floats = static_cast<std::size_t>(job.DenseFloats());
  std::vector<float> first(floats), back(floats);
  for (std::size_t i = 0; i < floats; ++i) first[i] = static_cast<float>(i % 1001);
  ASSERT_THAT(client->Initialise(first), IsOk());
  ASSERT_THAT(client->Pull({.rows = {}, .dense = back}), IsOk());
  EXPECT_EQ(first, back);
}

// Each float once, over TCP from the end of what each server has, with the numbers of all servers.
TEST_F(ClientTest, DenseFloatsAreHandedOverAsTheyArrive) {
  for (const std::uint32_t servers : {1U, 3U}) {
    for (const bool shared_memory : {true, false}) {
      running_.clear();
      endpoints_.clear();
      StartServers(servers);
      JobSpec job = Job();
      job.dense.push_back({"large", {100, 10'007}});
      const auto client = Trainer(job, 0, shared_memory);
      const auto floats = static_cast<std::size_t>(job.DenseFloats());
      std::vector<float> first(floats), back(floats, -1.0F), memory(floats);
      for (std::size_t i = 0; i < floats; ++i) first[i] = static_cast<float>(i % 1001);
      ASSERT_THAT(client->Initialise(first), IsOk());
      Mutex mutex;
      std::size_t taken = 0;
      bool at_end = false;  // the end of the buffer was there when most of it was not
      const auto answer = client->PullArriving(
          {.rows = {}, .dense = memory}, [&](std::uint64_t begin, std::span<const float> part) {
            const MutexLock lock(mutex);
            std::ranges::copy(part, back.begin() + static_cast<std::ptrdiff_t>(begin));
            taken += part.size();
            at_end = at_end || (begin + part.size() == floats && taken < floats);
          });
      ASSERT_THAT(answer, IsOk());
      EXPECT_EQ(answer->pushes.size(), servers);
      EXPECT_EQ(taken, floats);
      EXPECT_EQ(at_end, !shared_memory);  // which is one copy
      EXPECT_EQ(back, first);
    }
  }
}

// More pushes than the memory has room for, while a server comes and goes.
TEST_F(ClientTest, SharedMemoryChangesNothing) {
  for (const std::uint32_t servers : {1U, 2U}) {
    std::vector<std::vector<float>> results;
    for (const bool shared_memory : {true, false}) {
      running_.clear();
      endpoints_.clear();
      StartServers(servers);
      JobSpec job = Job();
      job.dense.push_back({"large", {999, 5001}});  // 20 MB
      const auto client = Trainer(job, 0, shared_memory);
      const auto floats = static_cast<std::size_t>(job.DenseFloats());
      std::vector<float> dense(floats, 0.5F), rows(40'000 * kDim, 0.25F);
      ASSERT_THAT(client->Initialise(dense), IsOk());
      std::vector<std::int64_t> ids(40'000);
      std::iota(ids.begin(), ids.end(), -20'000);
      for (std::uint64_t batch = 0; batch < 12; ++batch) {
        for (std::size_t i = 0; i < floats; ++i) dense[i] = static_cast<float>((i + batch) % 13);
        Push push{.lease = 0, .batch = batch, .learning_rate = 0.1F};
        push.tables.push_back({0, kDim, ids, rows});
        push.dense = dense;
        ASSERT_THAT(client->Push(push, {}), IsOk());
        if (batch == 5) {
          running_[0].server.reset();
          StartServer(0, endpoints_[0]);
        }
        if (batch % 4 == 3) {
          ASSERT_THAT(client->Pull({.rows = {{0, ids, rows}}, .dense = dense}), IsOk());
        }
        std::ranges::fill(rows, static_cast<float>(batch));
      }
      ASSERT_THAT(client->Flush(), IsOk());
      ASSERT_THAT(client->Pull({.rows = {{0, ids, rows}}, .dense = dense}), IsOk());
      dense.insert(dense.end(), rows.begin(), rows.end());
      results.push_back(std::move(dense));
    }
    EXPECT_EQ(results[0], results[1]) << servers;
  }
}

// The log writes what lies in the memory of a trainer that pushes on, and reuses it.
TEST_F(ClientTest, WhatLiesInSharedMemoryIsLogged) {
  disk::PosixFileSystem fs;
  for (const Apply apply : {Apply::kAtOnce, Apply::kTogether}) {
    const testing::TempDir dir{testing::TempDir::Place::kMemory};
    const ServerCoreOptions options{.file_system = &fs, .folder = dir.path()};
    running_.clear();
    endpoints_.clear();
    AddServer(options);
    JobSpec job = Job(1, apply);
    job.dense.push_back({"large", {999, 501}});  // 2 MB
    auto client = Trainer(job);
    std::vector<float> dense(static_cast<std::size_t>(job.DenseFloats()), 0.5F);
    ASSERT_THAT(client->Initialise(dense), IsOk());
    std::vector<std::int64_t> ids(20'000);
    std::vector<float> rows(ids.size() * kDim);
    for (std::uint64_t batch = 0; batch < 50; ++batch) {
      std::iota(ids.begin(), ids.end(), static_cast<std::int64_t>(1000 * batch));
      std::ranges::fill(rows, static_cast<float>(batch));
      std::ranges::fill(dense, static_cast<float>(batch % 7));
      Push push{.lease = 0, .batch = batch, .learning_rate = 0.1F};
      push.tables.push_back({0, kDim, ids, rows});
      push.dense = dense;
      ASSERT_THAT(client->Push(push, {}), IsOk());
    }
    ASSERT_THAT(client->Flush(), IsOk());
    std::iota(ids.begin(), ids.end(), 25'000);
    ASSERT_THAT(client->Pull({.rows = {{0, ids, rows}}, .dense = dense}), IsOk());
    client.reset();
    running_.clear();

    const auto again = ServerCore::Open(options);
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ((*again)->recovery().replayed, 50U);
    std::vector<float> old_dense(dense.size()), old_rows(rows.size());
    ASSERT_THAT((*again)->Pull({.rows = {{0, ids, old_rows}}, .dense = old_dense}, nullptr),
                IsOk());
    EXPECT_EQ(old_dense, dense);
    EXPECT_EQ(old_rows, rows);
  }
}

TEST_F(ClientTest, APullWaitsForTheOtherTrainer) {
  StartServers(2);
  const JobSpec job = Job(2, Apply::kTogether);
  const auto a = Trainer(job, 0), b = Trainer(job, 1);
  ASSERT_THAT(a->Initialise(std::vector<float>(42, 0.0F)), IsOk());
  ASSERT_THAT(b->Initialise(std::vector<float>(42, 9.0F)), IsOk());  // too late: ignored
  const std::vector<std::int64_t> ids{7};
  ASSERT_THAT(PushOnes(*a, 0, 0, ids), IsOk());
  std::vector<float> dense(42);
  auto pull = std::async(std::launch::async,
                         [&] { return a->Pull({.min_version = 1, .rows = {}, .dense = dense}); });
  ASSERT_THAT(PushOnes(*b, 1, 0, ids), IsOk());
  ASSERT_THAT(pull.get(), IsOk());
  EXPECT_EQ(dense, std::vector<float>(42, -2.0F));
}

// The connections break while pushes are on their way; each counts once.
TEST_F(ClientTest, AServerThatComesBackGetsEveryPushOnce) {
  StartServers(2);
  const JobSpec job = Job();
  const auto client = Trainer(job);
  ASSERT_THAT(client->Initialise(std::vector<float>(42, 0.0F)), IsOk());
  const std::vector<std::int64_t> ids{1, 2, 3, 4, 5};
  constexpr std::uint64_t kPushes = 200;
  for (std::uint64_t batch = 0; batch < kPushes; ++batch) {
    if (batch % 50 == 25) {
      running_[1].server.reset();
      StartServer(1, endpoints_[1]);
    }
    ASSERT_THAT(PushOnes(*client, 0, batch, ids), IsOk());
  }
  ASSERT_THAT(client->Flush(), IsOk());
  std::vector<float> dense(42), rows(ids.size() * kDim);
  ASSERT_THAT(client->Pull({.rows = {{0, ids, rows}}, .dense = dense}), IsOk());
  EXPECT_EQ(dense, std::vector<float>(42, -static_cast<float>(kPushes)));
  EXPECT_EQ(rows, std::vector<float>(rows.size(), -static_cast<float>(kPushes)));
}

// Large enough that a server sees its beginning before its end is there.
JobSpec LongJob() {
  JobSpec job{.fingerprint = "long"};
  job.dense.push_back({"first", {700, 1000}});
  job.dense.push_back({"second", {3, 1}});
  job.dense.push_back({"third", {1500, 1000}});
  return job;
}

class OpenPushTest : public ClientTest {
 protected:
  void Start(std::uint32_t servers, bool shared_memory) {
    StartServers(servers);
    client_ = Trainer(LongJob(), 0, shared_memory);
    gradient_.assign(LongJob().DenseFloats(), 0.0F);
    ASSERT_THAT(client_->Initialise(gradient_), IsOk());
    std::iota(gradient_.begin(), gradient_.end(), 1.0F);
  }
  std::unique_ptr<OpenPush> Open(std::uint64_t batch) {
    auto open = client_->Open({.batch = batch, .learning_rate = 1}, {});
    EXPECT_THAT(open, IsOk());
    return std::move(*open);
  }
  // In pieces that fit nothing.
  void Append(OpenPush& open, std::size_t begin, std::size_t end) {
    for (std::size_t count = 0; begin < end; begin += count) {
      count = std::min<std::size_t>(77'777, end - begin);
      open.Append(std::span(gradient_).subspan(begin, count));
    }
  }
  void ExpectOneStep() {
    ASSERT_THAT(client_->Flush(), IsOk());
    std::vector<float> values(gradient_.size());
    ASSERT_THAT(client_->Pull({.rows = {}, .dense = values}), IsOk());
    for (float& value : values) value = -value;
    EXPECT_TRUE(values == gradient_);
    EXPECT_EQ(*client_->NextBatch(0), 1U);
  }

  std::unique_ptr<Client> client_;
  std::vector<float> gradient_;
};

TEST_F(OpenPushTest, InPartsIsTheSame) {
  for (const bool shared_memory : {true, false}) {
    for (const std::uint32_t servers : {1U, 3U}) {
      client_.reset();
      running_.clear();
      endpoints_.clear();
      Start(servers, shared_memory);
      const auto open = Open(0);
      Append(*open, 0, gradient_.size());
      ASSERT_THAT(open->Finish(), IsOk());
      ExpectOneStep();
    }
  }
}

TEST_F(OpenPushTest, WhatIsTakenBackNeverCounts) {
  Start(2, true);
  for (const std::size_t written :
       {std::size_t{0}, std::size_t{10}, gradient_.size() / 2, gradient_.size()}) {
    const auto open = Open(0);
    Append(*open, 0, written);
  }
  ASSERT_THAT(client_->Push({.learning_rate = 1, .dense = gradient_}, {}), IsOk());
  ExpectOneStep();
}

TEST_F(OpenPushTest, TheNextPushThatCountsAsksEveryServerToSave) {
  Start(2, true);
  const auto wants = [&] {
    return std::pair(running_[0].core->WantsSnapshot(), running_[1].core->WantsSnapshot());
  };
  ASSERT_THAT(client_->Push({.learning_rate = 1, .dense = gradient_}, {}), IsOk());
  ASSERT_THAT(client_->Flush(), IsOk());
  client_->SaveWithNextPush();
  Append(*Open(1), 0, 10);  // taken back
  EXPECT_EQ(wants(), std::pair(false, false));
  const auto open = Open(1);
  Append(*open, 0, gradient_.size());
  ASSERT_THAT(open->Finish(), IsOk());
  ASSERT_THAT(client_->Flush(), IsOk());
  EXPECT_EQ(wants(), std::pair(true, true));
}

TEST_F(OpenPushTest, AServerMayComeBackInTheMiddle) {
  Start(2, true);
  const auto open = Open(0);
  Append(*open, 0, gradient_.size() / 2);
  running_[1].server.reset();
  StartServer(1, endpoints_[1]);
  Append(*open, gradient_.size() / 2, gradient_.size());
  ASSERT_THAT(open->Finish(), IsOk());
  ExpectOneStep();
}

// All floats change alike: whoever finds two that differ has seen a push by half.
TEST_F(ClientTest, NobodySeesHalfAPush) {
  for (const bool shared_memory : {true, false}) {
    running_.clear();
    endpoints_.clear();
    StartServers(1);
    const auto pushes = Trainer(LongJob(), 0, shared_memory);
    const auto pulls = Trainer(LongJob(), 1, shared_memory);
    const std::vector<float> ones(LongJob().DenseFloats(), 1.0F);
    ASSERT_THAT(pushes->Initialise(ones), IsOk());
    constexpr std::uint64_t kPushes = 30;
    auto pushed = std::async(std::launch::async, [&] {
      Status status;
      for (std::uint64_t batch = 0; batch < kPushes && status.ok(); ++batch) {
        status = pushes->Push({.batch = batch, .learning_rate = 1, .dense = ones}, {});
      }
      return status.ok() ? pushes->Flush() : status;
    });
    std::vector<float> values(ones.size());
    for (std::uint64_t seen = 0; seen < kPushes;) {
      const auto pulled = pulls->Pull({.rows = {}, .dense = values});
      ASSERT_THAT(pulled, IsOk());
      seen = pulled->pushes[0];
      EXPECT_EQ(std::ranges::count(values, values[0]), std::ssize(values));
      EXPECT_LE(values[0], 1.0F - static_cast<float>(seen));
    }
    EXPECT_THAT(pushed.get(), IsOk());
  }
}

// A server that has to remember what was pulled copies it, whoever could read it.
TEST_F(ClientTest, DelaysAreCompensatedInSharedMemoryToo) {
  StartServers(1);
  JobSpec job = LongJob();
  job.delay_compensation = 0.5F;
  job.trainers = 2;
  const auto slow = Trainer(job, 0), fast = Trainer(job, 1);
  const std::vector<float> ones(job.DenseFloats(), 1.0F);
  ASSERT_THAT(slow->Initialise(ones), IsOk());
  std::vector<float> values(ones.size());
  ASSERT_THAT(slow->Pull({.trainer = 0, .rows = {}, .dense = values}), IsOk());
  EXPECT_TRUE(values == ones);
  ASSERT_THAT(fast->Push({.lease = 1, .learning_rate = 1, .dense = ones}, {}), IsOk());
  ASSERT_THAT(fast->Flush(), IsOk());
  ASSERT_THAT(slow->Push({.lease = 0, .learning_rate = 1, .dense = ones}, {}), IsOk());
  ASSERT_THAT(slow->Flush(), IsOk());
  ASSERT_THAT(slow->Pull({.trainer = 0, .rows = {}, .dense = values}), IsOk());
  // 1 - 1, then the gradient 1 + 0.5 * (0 - 1) * 1 * 1.
  EXPECT_EQ(values.front(), -0.5F);
  EXPECT_EQ(values.back(), -0.5F);
}

// As a server without a log does that was killed.
TEST_F(ClientTest, AServerThatHasForgottenIsAnErrorForGood) {
  StartServers(2);
  const auto client = Trainer(Job());
  ASSERT_THAT(client->Initialise(std::vector<float>(42, 0.0F)), IsOk());
  const std::vector<std::int64_t> ids{1, 2, 3};
  for (const std::uint64_t batch : {0U, 1U, 2U}) {
    ASSERT_THAT(PushOnes(*client, 0, batch, ids), IsOk());
  }
  ASSERT_THAT(client->Flush(), IsOk());
  ReplaceServer(1);
  std::vector<float> dense(42);
  EXPECT_THAT(client->Pull({.rows = {}, .dense = dense}),
              StatusIs(Code::kBadCheckpoint, HasSubstr("lost 3 acknowledged pushes of trainer 0")));
}

TEST_F(ClientTest, AServerThatHasForgottenItsFirstValuesIsAnErrorForGood) {
  StartServers(1);
  const auto client = Trainer(Job());
  ASSERT_THAT(client->Initialise(std::vector<float>(42, 0.0F)), IsOk());
  ReplaceServer(0);
  std::vector<float> dense(42);
  EXPECT_THAT(client->Pull({.rows = {}, .dense = dense}),
              StatusIs(Code::kBadCheckpoint, HasSubstr("lost its values")));
}

TEST_F(ClientTest, AnotherJobIsRefused) {
  StartServers(1);
  const auto client = Trainer(Job());
  JobSpec other = Job();
  other.fingerprint = "another";
  EXPECT_THAT(Client::Connect(loop_, {.servers = endpoints_, .secret = secret_, .job = other}),
              StatusIs(Code::kMismatch, HasSubstr("server 0")));
  EXPECT_THAT(Client::Connect(
                  loop_, {.servers = endpoints_, .secret = *net::Secret::Generate(), .job = Job()}),
              StatusIs(Code::kUnauthenticated, HasSubstr("secret")));
}

// A head that announces a terabyte, one of an unknown kind, half a head, and a request out of turn.
TEST_F(ClientTest, NonsenseEndsItsOwnConnectionOnly) {
  StartServers(1);
  const auto client = Trainer(Job());
  ASSERT_THAT(client->Initialise(std::vector<float>(42, 0.0F)), IsOk());
  std::vector<std::vector<std::byte>> nonsense(4, std::vector<std::byte>(16));
  nonsense[0][0] = std::byte{5};
  nonsense[0][13] = std::byte{0xFF};
  nonsense[1][0] = std::byte{200};
  nonsense[2].resize(7);
  nonsense[3][0] = std::byte{4};  // an empty push, and nobody has said which job
  for (const std::vector<std::byte>& bytes : nonsense) {
    auto connection =
        net::ConnectTo(loop_, endpoints_[0], "server",
                       {.secret = secret_, .deadline = std::chrono::steady_clock::now() + 60s});
    ASSERT_THAT(connection, IsOk());
    std::promise<void> ended;
    (*connection)->WhenClosed([&](const net::Closed&) { ended.set_value(); });
    net::Completion sent;
    (*connection)->Send(wire::FrameType::kData, 0x5350, bytes, sent.ForSend());
    // An answer, if there is one, is followed by the end.
    std::vector<std::byte> answer(1 << 16);
    net::Completion received;
    (*connection)->Receive({.tag = 0x5350, .exact = false}, answer, received.ForReceive());
    ended.get_future().wait();
    sent.WaitWithoutDeadline();
    received.WaitWithoutDeadline();
  }
  const std::vector<std::int64_t> ids{1};
  ASSERT_THAT(PushOnes(*client, 0, 0, ids), IsOk());
  EXPECT_THAT(client->Flush(), IsOk());
}

TEST_F(ClientTest, WhatAServerRefusesIsTold) {
  StartServers(1);
  const auto client = Trainer(Job());
  ASSERT_THAT(client->Initialise(std::vector<float>(42, 0.0F)), IsOk());
  const std::vector<std::int64_t> ids{1};
  ASSERT_THAT(PushOnes(*client, 0, 5, ids), IsOk());  // batches 0 to 4 are missing
  EXPECT_THAT(client->Flush(), StatusIs(Code::kProtocol, HasSubstr("server 0")));
}

}  // namespace
}  // namespace paceline::ps

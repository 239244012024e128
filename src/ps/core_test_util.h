#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "ps/push_message.h"
#include "ps/server_core.h"

// Jobs and pushes for tests of a server's core.
namespace paceline::ps {

// Two tables and three dense tensors, one of them a statistic; Adam for the dense ones.
JobSpec TestJob(Apply apply, std::uint64_t trainers);
// The same with tables that do not take every id, and lose those that are not pushed for a while.
JobSpec SelectiveJob(Apply apply, std::uint64_t trainers);

inline constexpr std::int64_t kTestIds = 40;  // ids 0 .. 39 are used

// What a trainer pushes after a batch, to all servers together.
struct TestPush {
  std::uint64_t lease = 0;
  std::uint64_t batch = 0;
  std::uint64_t version = kVersionUnknown;
  float learning_rate = 0.125F;
  bool last = false;
  bool deltas = false;
  bool save = false;
  std::uint64_t trainers = 1;
  std::map<std::uint32_t, std::map<std::int64_t, std::vector<float>>> rows;  // by table and id
  std::vector<float> dense;
};

// Numbers for some rows and all dense floats.
TestPush RandomPush(const JobSpec& spec, std::uint64_t lease, std::uint64_t batch, CounterRng& rng);

// The part of it for one server.
MessageBytes MessageFor(const TestPush& push, const JobSpec& spec, std::uint32_t servers,
                        std::uint32_t index);

// Several servers of a job in one process.
class TestServers {
 public:
  // `options` is completed with index and number; fails the test when one does not open.
  TestServers(std::uint32_t servers, const ServerCoreOptions& options);
  explicit TestServers(std::vector<std::unique_ptr<ServerCore>> cores) : cores_(std::move(cores)) {}
  explicit TestServers(std::unique_ptr<ServerCore> only) { cores_.push_back(std::move(only)); }

  // Configures and initialises all: dense value i becomes i / 64.
  Status TryBegin(const JobSpec& spec);
  void Begin(const JobSpec& spec);
  // Fails the test when a server refuses it.
  void Push(const TestPush& push);

  // All dense values and the rows 0 .. kTestIds - 1 of every table, without touching them.
  std::vector<float> Values();
  // Of each table, over all servers: rows, ids that wait for one, rows that were evicted.
  std::vector<std::uint64_t> TableCounts();

  ServerCore& operator[](std::size_t index) { return *cores_[index]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(cores_.size()); }

 private:
  JobSpec spec_;
  std::vector<std::unique_ptr<ServerCore>> cores_;
};

// Returns when the record is durable, or never will be.
Status AwaitDurable(ServerCore& core, std::uint64_t record);

// The dense values of one server in the order in which it keeps them, cut from those of the job.
std::vector<float> DenseOf(const JobSpec& spec, std::uint32_t servers, std::uint32_t index,
                           const std::vector<float>& dense);

}  // namespace paceline::ps

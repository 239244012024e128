#include "ps/core_test_util.h"

#include <algorithm>
#include <future>

#include <gmock/gmock.h>

#include "algo/table_partition.h"
#include "testing/status_matchers.h"

namespace paceline::ps {

using testing::IsOk;

JobSpec TestJob(Apply apply, std::uint64_t trainers) {
  JobSpec spec;
  spec.fingerprint = "test";
  spec.apply = apply;
  spec.trainers = trainers;
  spec.tables = {
      {.options = {.name = "words",
                   .dim = 3,
                   .seed = 7,
                   .init_range = 0.5F,
                   .optimizer = {.kind = RowOptimizerKind::kAdagrad}}},
      {.options = {.name = "places",
                   .dim = 2,
                   .seed = 7,
                   .init_range = 0.25F,
                   .optimizer = {.kind = RowOptimizerKind::kAdam}},
       .learning_rate_scale = 0.5F},
  };
  spec.dense = {{.name = "weight", .rows = {.rows = 10, .row_floats = 5}},
                {.name = "mean", .rows = {.rows = 6}, .kind = DenseKind::kStatistic},
                {.name = "bias", .rows = {.rows = 5}, .learning_rate_scale = 2}};
  spec.dense_optimizer.kind = RowOptimizerKind::kAdam;
  return spec;
}

JobSpec SelectiveJob(Apply apply, std::uint64_t trainers) {
  JobSpec spec = TestJob(apply, trainers);
  spec.tables[0].options.admission = {.rule = AdmissionRule::kAfterTouches, .touches = 2};
  spec.tables[0].options.evict_after = 3;
  spec.tables[1].options.evict_after = 1;
  return spec;
}

TestPush RandomPush(const JobSpec& spec, std::uint64_t lease, std::uint64_t batch,
                    CounterRng& rng) {
  TestPush push{.lease = lease, .batch = batch};
  for (std::uint32_t table = 0; table < spec.tables.size(); ++table) {
    for (std::uint32_t i = rng.Below(12); i > 0; --i) {
      std::vector<float>& row = push.rows[table][rng.Below(kTestIds)];
      row.resize(spec.tables[table].options.dim);
      for (float& value : row) value = rng.Normal();
    }
  }
  push.dense.resize(spec.DenseFloats());
  for (float& value : push.dense) value = rng.Normal();
  return push;
}

std::vector<float> DenseOf(const JobSpec& spec, std::uint32_t servers, std::uint32_t index,
                           const std::vector<float>& dense) {
  std::vector<float> part;
  if (dense.empty()) return part;
  for (const DensePiece& piece : DensePiecesOf(spec, servers, index)) {
    const auto begin = dense.begin() + static_cast<std::ptrdiff_t>(piece.begin);
    part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(piece.count));
  }
  return part;
}

MessageBytes MessageFor(const TestPush& push, const JobSpec& spec, std::uint32_t servers,
                        std::uint32_t index) {
  std::map<std::uint32_t, std::vector<std::int64_t>> ids;
  std::map<std::uint32_t, std::vector<float>> values;
  Push message{.lease = push.lease,
               .batch = push.batch,
               .version = push.version,
               .learning_rate = push.learning_rate,
               .last = push.last,
               .deltas = push.deltas,
               .save = push.save,
               .trainers = push.trainers,
               .tables = {},
               .dense = {}};
  for (const auto& [table, rows] : push.rows) {
    for (const auto& [id, row] : rows) {
      if (algo::ServerOf(id, servers) != index) continue;
      ids[table].push_back(id);
      values[table].insert(values[table].end(), row.begin(), row.end());
    }
    const auto dim = static_cast<std::uint32_t>(spec.tables[table].options.dim);
    message.tables.push_back(
        {.table = table, .dim = dim, .ids = ids[table], .values = values[table]});
  }
  const std::vector<float> dense = DenseOf(spec, servers, index, push.dense);
  message.dense = dense;
  return EncodePush(message);
}

Status AwaitDurable(ServerCore& core, std::uint64_t record) {
  // Shared: the log's thread may still be in set_value() when the waiting one has gone on.
  const auto told = std::make_shared<std::promise<Status>>();
  core.WhenDurable(record, [told](const Status& status) { told->set_value(status); });
  return told->get_future().get();
}

TestServers::TestServers(std::uint32_t servers, const ServerCoreOptions& options) {
  for (std::uint32_t index = 0; index < servers; ++index) {
    ServerCoreOptions own = options;
    own.index = index;
    own.servers = servers;
    auto core = ServerCore::Open(own);
    EXPECT_THAT(core, IsOk());
    if (core.ok()) cores_.push_back(std::move(*core));
  }
}

Status TestServers::TryBegin(const JobSpec& spec) {
  spec_ = spec;
  std::vector<float> dense(spec.DenseFloats());
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<float>(i) / 64;
  for (std::uint32_t index = 0; index < size(); ++index) {
    PACELINE_TRY(cores_[index]->Configure(spec));
    PACELINE_TRY(cores_[index]->Initialise(DenseOf(spec, size(), index, dense)));
  }
  return {};
}

void TestServers::Begin(const JobSpec& spec) { EXPECT_THAT(TryBegin(spec), IsOk()); }

void TestServers::Push(const TestPush& push) {
  for (std::uint32_t index = 0; index < size(); ++index) {
    const MessageBytes message = MessageFor(push, spec_, size(), index);
    EXPECT_THAT(cores_[index]->Push(AsBytes(message)), IsOk());
  }
}

std::vector<float> TestServers::Values() {
  std::vector<float> values(spec_.DenseFloats());
  for (std::uint32_t index = 0; index < size(); ++index) {
    const auto pieces = DensePiecesOf(spec_, size(), index);
    std::uint64_t floats = 0;
    for (const DensePiece& piece : pieces) floats += piece.count;
    std::vector<float> part(floats);
    EXPECT_THAT(cores_[index]->Pull({.touch = Touch::kPeek, .rows = {}, .dense = part}, nullptr),
                IsOk());
    auto from = part.begin();
    for (const DensePiece& piece : pieces) {
      const auto end = from + static_cast<std::ptrdiff_t>(piece.count);
      std::copy(from, end, values.begin() + static_cast<std::ptrdiff_t>(piece.begin));
      from = end;
    }
  }
  for (std::uint32_t table = 0; table < spec_.tables.size(); ++table) {
    for (std::int64_t id = 0; id < kTestIds; ++id) {
      std::vector<float> row(spec_.tables[table].options.dim);
      PullRequest request{.touch = Touch::kPeek, .rows = {}, .dense = {}};
      request.rows.push_back({.table = table, .ids = std::span(&id, 1), .out = row});
      EXPECT_THAT(cores_[algo::ServerOf(id, size())]->Pull(request, nullptr), IsOk());
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return values;
}

std::vector<std::uint64_t> TestServers::TableCounts() {
  std::vector<std::uint64_t> sums(spec_.tables.size() * 3);
  for (const auto& core : cores_) {
    const auto tables = core->StatusNow().tables;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      sums[3 * i] += tables[i].rows;
      sums[3 * i + 1] += tables[i].waiting;
      sums[3 * i + 2] += tables[i].evicted;
    }
  }
  return sums;
}

}  // namespace paceline::ps

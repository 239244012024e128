#include "bench/ps_perf.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/stats.h"
#include "base/subprocess.h"
#include "base/thread.h"
#include "bench/private_folder.h"
#include "bench/ps_bounds.h"
#include "bench/ps_peers.h"
#include "job/server_record.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "ps/client.h"

namespace paceline::bench {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReady(30'000), kLookAgain(10);
constexpr std::uint64_t kColumns = 1024;  // of the dense tensor
enum Way { kSharedMemory, kTcp, kWays };
constexpr std::array<const char*, kWays> kWayNames{"shared memory", "tcp"};
constexpr char kPushName[] = "dense push", kPullName[] = "dense pull";

class ServerProcesses {
 public:
  static Result<ServerProcesses> Start(const PsPerfConfig& config, const std::string& program) {
    PACELINE_ASSIGN(PrivateFolder folder, PrivateFolder::Make());
    PACELINE_ASSIGN(const net::Secret secret, net::Secret::Generate());
    ServerProcesses servers(std::move(folder), secret);
    for (int i = 0; i < config.servers; ++i) {
      PACELINE_ASSIGN(
          Subprocess process,
          Subprocess::Start(
              {.argv = {program, "server", "--run", servers.Run(), "--index", std::to_string(i),
                        "--servers", std::to_string(config.servers), "--wal", config.wal},
               .environment = {{"PACELINE_SECRET", secret.ToHex()}},
               .pipe_stdout = false}));
      servers.processes_.push_back(std::move(process));
    }
    for (int i = 0; i < config.servers; ++i) PACELINE_TRY(servers.AwaitReady(i));
    return servers;
  }

  const std::vector<net::Endpoint>& endpoints() const { return endpoints_; }
  const net::Secret& secret() const { return secret_; }

 private:
  ServerProcesses(PrivateFolder folder, const net::Secret& secret)
      : folder_(std::move(folder)), secret_(secret) {}
  std::string Run() const { return folder_.path().string(); }

  Status AwaitReady(int index) {
    const Instant deadline = SystemClock().Now() + kReady;
    for (;;) {
      const auto record = job::ReadServerRecord(Run(), static_cast<std::uint64_t>(index));
      if (record.ok()) {
        PACELINE_ASSIGN(net::Endpoint endpoint, net::ParseEndpoint(record->endpoint));
        endpoints_.push_back(std::move(endpoint));
        return {};
      }
      const auto ended = processes_[static_cast<std::size_t>(index)].Wait(kLookAgain);
      if (ended.ok() || SystemClock().Now() >= deadline) {
        return Status::Error(Code::kPeerLost, fmt::format("server {} did not start", index));
      }
    }
  }

  PrivateFolder folder_;
  net::Secret secret_;
  std::vector<net::Endpoint> endpoints_;
  std::vector<Subprocess> processes_;  // end before the folder does
};

ps::JobSpec DescribeJob(const PsPerfConfig& config) {
  ps::JobSpec job{.fingerprint = "perf",
                  .apply = ps::Apply::kAtOnce,
                  .trainers = static_cast<std::uint64_t>(config.trainers) * kWays};
  job.tables.push_back(
      {.options = {.name = "rows", .dim = static_cast<std::uint32_t>(config.dim)}});
  job.dense.push_back({"dense", {config.dense_bytes / sizeof(float) / kColumns, kColumns}});
  return job;
}

// One trainer with a client for each way. Gradients are small and constant: they cost as any
// others.
class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> Connect(const PsPerfConfig& config,
                                                  const ServerProcesses& servers, int index) {
    std::unique_ptr<Trainer> trainer(new Trainer(config, index));
    const ps::JobSpec job = DescribeJob(config);
    for (int way = 0; way < kWays; ++way) {
      const auto lease =
          static_cast<std::uint64_t>(index) * kWays + static_cast<std::uint64_t>(way);
      PACELINE_ASSIGN(auto client,
                      ps::Client::Connect(trainer->loop_, {.servers = servers.endpoints(),
                                                           .secret = servers.secret(),
                                                           .trainer = lease,
                                                           .job = job,
                                                           .shared_memory = way == kSharedMemory}));
      PACELINE_TRY(client->Initialise(trainer->dense_));
      trainer->ends_[static_cast<std::size_t>(way)] = {std::move(client), lease, 0};
    }
    return trainer;
  }

  Status PushDense(Way way) {
    ps::Push push;
    push.dense = dense_;
    return Push(way, push);
  }
  Status PullDense(Way way) {
    return ends_[way].client->Pull({.rows = {}, .dense = pulled_}).status();
  }
  Status PushRows(Way way) {
    ps::Push push;
    push.tables.push_back({.table = 0, .dim = dim_, .ids = ids_, .values = rows_});
    return Push(way, push);
  }
  Status PullRows(Way way) {
    return ends_[way].client->Pull({.rows = {{0, ids_, pulled_rows_}}, .dense = {}}).status();
  }
  Status PullOneRow(Way way) {
    const auto id = std::span<const std::int64_t>(ids_).first(1);
    const auto row = std::span(pulled_rows_).first(dim_);
    return ends_[way].client->Pull({.rows = {{0, id, row}}, .dense = {}}).status();
  }

 private:
  struct End {
    std::unique_ptr<ps::Client> client;
    std::uint64_t lease = 0, batch = 0;
  };

  Trainer(const PsPerfConfig& config, int index)
      : dim_(static_cast<std::uint32_t>(config.dim)),
        dense_(config.dense_bytes / sizeof(float) / kColumns * kColumns, 0.001F),
        pulled_(dense_.size()),
        ids_(static_cast<std::size_t>(config.ids)),
        rows_(ids_.size() * dim_, 0.001F),
        pulled_rows_(rows_.size()) {
    const std::int64_t distance = config.rows / config.ids;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      ids_[i] = static_cast<std::int64_t>(i) * distance + index % distance;
    }
  }

  // Until it is acknowledged.
  Status Push(Way way, ps::Push& push) {
    push.lease = ends_[way].lease;
    push.batch = ends_[way].batch++;
    push.learning_rate = 0.001F;
    PACELINE_TRY(ends_[way].client->Push(push, {}));
    return ends_[way].client->Flush();
  }

  const std::uint32_t dim_;
  std::vector<float> dense_, pulled_;
  std::vector<std::int64_t> ids_;
  std::vector<float> rows_, pulled_rows_;
  net::Loop loop_;
  std::array<End, kWays> ends_;
};

using Trainers = std::vector<std::unique_ptr<Trainer>>;

// All trainers at the same time; seconds of the slowest.
Result<double> TimeAll(const Trainers& trainers, const std::function<Status(Trainer&)>& work) {
  std::vector<Status> ended(trainers.size());
  std::vector<double> seconds(trainers.size());
  std::latch start(static_cast<std::ptrdiff_t>(trainers.size()));
  {
    std::vector<std::jthread> threads;
    threads.reserve(trainers.size());
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      threads.push_back(StartThread("trainer", [&, i] {
        start.arrive_and_wait();
        const Instant begin = SystemClock().Now();
        ended[i] = work(*trainers[i]);
        seconds[i] = ToSeconds(SystemClock().Now() - begin);
      }));
    }
  }
  for (const Status& status : ended) PACELINE_TRY(status);
  return paceline::Summarize(seconds).max;
}

// Peers that are here.
struct Peers {
  std::optional<GrpcPeer> grpc;
  std::optional<IperfPeer> iperf;
};

constexpr char kGrpcPeer[] = "grpc", kIperfPeer[] = "iperf3";

bool IsAsked(const PsPerfConfig& config, const char* peer) {
  return std::ranges::find(config.peers, peer) != config.peers.end();
}

template <typename Peer>
Status Adopt(Result<Peer> started, const std::string& name, std::optional<Peer>& peer,
             std::vector<std::string>& skipped) {
  if (started.ok()) {
    peer = std::move(*started);
    return {};
  }
  if (started.status().code() != Code::kNotFound) return started.status();
  skipped.push_back(fmt::format("{}: {}", name, started.status().message()));
  return {};
}

// The measurements of one round, in order; each may give several figures.
class PsPerf {
 public:
  PsPerf(const PsPerfConfig& config, const Trainers& trainers, MoveBounds& bounds, Peers& peers)
      : config_(config), trainers_(trainers) {
    const std::size_t many = trainers.size(), dense = config.dense_bytes;
    const auto row_bytes = static_cast<std::size_t>(config.ids * config.dim) * sizeof(float);
    for (const Way way : {kSharedMemory, kTcp}) {
      AddWork(kPushName, way, many * dense, &Trainer::PushDense);
      AddWork(kPullName, way, many * dense, &Trainer::PullDense);
      AddWork("sparse push", way, many * row_bytes, &Trainer::PushRows);
      AddWork("sparse pull", way, many * row_bytes, &Trainer::PullRows);
      AddLatency(way);
    }
    Add("bound", "memcpy", dense, [&] { return Result<double>(bounds.Memory()); });
    Add("bound", "tcp loopback", dense, [&] { return bounds.Tcp(); });
    Add("bound", "sgd", dense, [&] { return Result<double>(bounds.Optimizer()); });
    if (peers.grpc) {
      for (const auto& [way, suffix] :
           {std::pair(kGrpc, ""), std::pair(kGrpcMessage, " message")}) {
        Add(kPushName, way, dense,
            [&, what = fmt::format("push{}", suffix)] { return peers.grpc->Call(what); });
        Add(kPullName, way, dense,
            [&, what = fmt::format("pull{}", suffix)] { return peers.grpc->Call(what); });
      }
    }
    if (peers.iperf) {
      using Pacing = IperfPeer::Pacing;
      for (const auto& [way, pacing] :
           {std::pair(kIperf, Pacing::kOfSystem), std::pair(kIperfUnpaced, Pacing::kNone)}) {
        Add("bound", way, dense, [&, dense, how = pacing]() -> Result<double> {
          PACELINE_ASSIGN(const double speed, peers.iperf->BytesPerSecond(how));
          return static_cast<double>(dense) / speed;
        });
      }
    }
  }

  Status Round(int number, const std::stop_token& stop) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (stop.stop_requested()) return Status::Error(Code::kAborted, "stopped");
      PACELINE_TRY(steps_[number % 2 == 0 ? i : steps_.size() - 1 - i]());
    }
    return {};
  }
  void ForgetWhatWasMeasured() {
    for (PsMeasure& measure : measures_) measure.seconds.clear();
  }
  // With one more for each way: a push and a pull, one after the other.
  std::vector<PsMeasure> Take() {
    std::vector<PsMeasure> taken;
    for (PsMeasure& measure : measures_) {
      const bool is_pull = measure.what == kPullName;
      if (is_pull) {
        PsMeasure both{.what = "dense push + pull",
                       .way = measure.way,
                       .bytes = 2 * measure.bytes,
                       .seconds = taken.back().seconds};  // of the push
        for (std::size_t i = 0; i < both.seconds.size(); ++i) both.seconds[i] += measure.seconds[i];
        taken.push_back(std::move(measure));
        taken.push_back(std::move(both));
      } else {
        taken.push_back(std::move(measure));
      }
    }
    return taken;
  }

 private:
  std::size_t AddMeasure(const std::string& what, const std::string& way, std::size_t bytes) {
    measures_.push_back({.what = what, .way = way, .bytes = bytes, .seconds = {}});
    return measures_.size() - 1;
  }

  void Add(const std::string& what, const std::string& way, std::size_t bytes,
           std::function<Result<double>()> seconds) {
    const std::size_t index = AddMeasure(what, way, bytes);
    steps_.emplace_back([this, index, seconds = std::move(seconds)]() -> Status {
      PACELINE_ASSIGN(const double took, seconds());
      measures_[index].seconds.push_back(took);
      return {};
    });
  }

  void AddWork(const std::string& what, Way way, std::size_t bytes, Status (Trainer::*work)(Way)) {
    Add(what, kWayNames[way], bytes, [this, way, work] {
      return TimeAll(trainers_, [&](Trainer& trainer) { return (trainer.*work)(way); });
    });
  }

  // Of the first trainer, the others being idle.
  void AddLatency(Way way) {
    const std::size_t p50 = AddMeasure("small pull p50", kWayNames[way], 0);
    const std::size_t p95 = AddMeasure("small pull p95", kWayNames[way], 0);
    steps_.emplace_back([this, p50, p95, way]() -> Status {
      std::vector<double> seconds(static_cast<std::size_t>(config_.small_pulls));
      for (double& one : seconds) {
        const Instant begin = SystemClock().Now();
        PACELINE_TRY(trainers_[0]->PullOneRow(way));
        one = ToSeconds(SystemClock().Now() - begin);
      }
      measures_[p50].seconds.push_back(Quantile(seconds, 0.5));
      measures_[p95].seconds.push_back(Quantile(seconds, 0.95));
      return {};
    });
  }

  const PsPerfConfig& config_;
  const Trainers& trainers_;
  std::vector<PsMeasure> measures_;
  std::vector<std::function<Status()>> steps_;
};

}  // namespace

Status Validate(const PsPerfConfig& config) {
  const auto wrong = [](const char* what) { return Status::Error(Code::kInvalidArgument, what); };
  if (config.servers < 1 || config.servers > 64) return wrong("--servers is 1 to 64");
  if (config.trainers < 1 || config.trainers > 64) return wrong("--workers is 1 to 64");
  if (config.dense_bytes < kColumns * sizeof(float)) return wrong("--dense is at least 4K");
  if (config.dim < 1 || config.dim > 4096) return wrong("--dim is 1 to 4096");
  if (config.ids < 1 || config.ids > config.rows) return wrong("--ids is 1 to --rows");
  if (config.rounds < 1 || config.small_pulls < 1)
    return wrong("--rounds and --pulls are 1 or more");
  for (const std::string& peer : config.peers) {
    if (peer != kGrpcPeer && peer != kIperfPeer) return wrong("--peers are grpc and iperf3");
  }
  return {};
}

Status RunPsPerf(const PsPerfPrograms& programs, const Progress& progress,
                 const std::stop_token& stop, PsPerfResults& results) {
  const PsPerfConfig& config = results.config;
  PACELINE_TRY(Validate(config));
  PACELINE_ASSIGN(const ServerProcesses servers, ServerProcesses::Start(config, programs.paceline));
  Trainers trainers;
  for (int i = 0; i < config.trainers; ++i) {
    PACELINE_ASSIGN(auto trainer, Trainer::Connect(config, servers, i));
    trainers.push_back(std::move(trainer));
  }
  PACELINE_ASSIGN(MoveBounds bounds, MoveBounds::Make(config.dense_bytes));
  Peers peers;
  if (IsAsked(config, kGrpcPeer)) {
    PACELINE_TRY(Adopt(GrpcPeer::Start(programs.grpc_unary, config.dense_bytes), "gRPC", peers.grpc,
                       results.skipped));
  }
  if (IsAsked(config, kIperfPeer)) {
    PACELINE_TRY(Adopt(IperfPeer::Start(), "iperf3", peers.iperf, results.skipped));
  }
  PsPerf perf(config, trainers, bounds, peers);
  PACELINE_TRY(perf.Round(0, stop));  // touches all memory and makes all rows
  perf.ForgetWhatWasMeasured();
  for (int round = 0; round < config.rounds; ++round) {
    PACELINE_TRY(perf.Round(round, stop));
    progress(fmt::format("round {} of {}", round + 1, config.rounds));
  }
  results.measures = perf.Take();
  return {};
}

}  // namespace paceline::bench

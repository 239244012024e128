#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/results.h"
#include "bench/single_node.h"
#include "job/machine.h"

namespace paceline::bench {

struct PsPerfConfig {
  int servers = 1;
  int trainers = 1;  // threads, each with connections of its own
  std::size_t dense_bytes = std::size_t{58} << 20;
  std::int64_t rows = 1'000'000;  // ids are drawn from so many
  int dim = 16;
  int ids = 10'000;       // of a push or pull, each once
  int small_pulls = 200;  // of a round, for the latency
  int rounds = 9;
  std::string wal = "off";  // of the servers: group and always measure the disk too
  std::vector<std::string> peers{"grpc", "iperf3"};  // to run beside, where they are installed
};
// kInvalidArgument names what cannot work.
Status Validate(const PsPerfConfig& config);

// Unary calls with bytes as they are, and with a message of protocol buffers that has them in a
// field.
inline constexpr char kGrpc[] = "gRPC", kGrpcMessage[] = "gRPC message";
// With the system's congestion control, and with one that does not pace.
inline constexpr char kIperf[] = "iperf3", kIperfUnpaced[] = "iperf3 unpaced";

// One thing that was measured; element i of `seconds` is round i, of the slowest trainer.
struct PsMeasure {
  std::string what;       // "dense push"
  std::string way;        // "shared memory", "tcp", kGrpc, kGrpcMessage; of a bound: "memcpy",
                          // "tcp loopback", "sgd", kIperf, kIperfUnpaced (as long as they take)
  std::size_t bytes = 0;  // of all trainers together; 0: a latency
  std::vector<double> seconds;
};

// `--json` prints: version, name "perf ps", start_unix, args, commit, dirty, machine{...},
// config{...}, warnings[text], skipped[text], results[{what, way, bytes|null, seconds[] (one per
// round), median, mad, gb_per_second|null, of_bound, of_bound_and_sgd, of_iperf3,
// of_iperf3_unpaced, times_grpc, times_grpc_message: null or {median, mad} of the ratios of speeds
// in each round}].
struct PsPerfResults {
  Provenance provenance;
  job::Machine machine;
  PsPerfConfig config;
  std::vector<PsMeasure> measures;
  std::vector<std::string> skipped;  // peers: "gRPC: not installed"
};
std::string ToJson(const PsPerfResults& results, JsonStyle style);
std::string PsPerfTable(const PsPerfResults& results);

// Starts servers and measures pushes and pulls over shared memory and over TCP, the bounds, and the
// peers, all in turn in every round, the order flipped every round. kAborted when `stop` is
// requested. Fills measures and skipped.
struct PsPerfPrograms {
  std::string paceline;
  std::string grpc_unary;  // need not exist
};
Status RunPsPerf(const PsPerfPrograms& programs, const Progress& progress,
                 const std::stop_token& stop, PsPerfResults& results);

}  // namespace paceline::bench

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/machine.h"

namespace paceline::bench {

// Where a result comes from, as far as the measuring code cannot know it. Filled by the app.
struct Provenance {
  std::string command_line;       // that repeats it
  std::int64_t started_unix = 0;  // seconds
  std::string commit;             // of the sources; empty: unknown
  bool dirty = false;             // sources differ from that commit
};

struct SingleNodeConfig {
  std::string model = "vgg16";
  int threads = 1;
  std::optional<int> cpu;  // every process is pinned to it
  int rounds = 7;
  // A round is as many steps as make this many samples, so that a small batch is not measured by a
  // moment.
  int samples_per_round = 128;
  int warmup_steps = 1;
};

int StepsPerRound(const SingleNodeConfig& config, int batch);

// One system. The first of a result is ours, the others are its peers.
struct SystemInfo {
  std::string name;
  std::string version;
  std::int64_t params = 0;
  std::int64_t tensors = 0;
  std::string unavailable;  // why it did not run; empty: it ran
};

// Raw measurements of one system at one batch size. seconds[i] of all systems were taken in round
// i, one after the other.
struct SystemRuns {
  std::vector<double> seconds;
  std::int64_t samples = 0;  // per round
  std::int64_t max_rss_bytes = 0;
  std::optional<double> last_loss;
};

struct BatchRuns {
  int batch = 0;
  std::vector<SystemRuns> systems;  // same order as SingleNodeResults::systems
};

// results.json, schema 1. One object:
//   schema, name, partial (bool), failure (why, or ""), command_line, started_unix, commit, dirty,
//   machine{cpu_model, cpu_flags "a b c", cores, cores_online, memory_bytes,
//           memory_available_bytes, os, kernel, governor, load_average, swap_on},
//   config{model, threads, cpu|null, rounds, samples_per_round, warmup_steps},
//   systems[{name, version, params, tensors, unavailable}],
//   batches[{batch, systems[{seconds[], samples, max_rss_bytes, last_loss|null}]}],
//   warnings[text],
//   summary[{batch, systems[{name, samples_per_second{median, mad, min, max, mean, count}|null,
//           outliers, max_rss_bytes|null, speedup{...}|null, memory_ratio|null}]}]
// `speedup` and `memory_ratio` are ours over that system's. The summary is derived from the rest
// and ignored when the file is read. A number that does not exist is null, never NaN.
struct SingleNodeResults {
  Provenance provenance;
  job::Machine machine;
  SingleNodeConfig config;
  std::vector<SystemInfo> systems;
  std::vector<BatchRuns> batches;
  bool partial = false;
  std::string failure;
};

enum class JsonStyle { kIndented, kOneLine };
std::string ToJson(const SingleNodeResults& results, JsonStyle style = JsonStyle::kIndented);
// kBadData names the first field that is wrong.
Result<SingleNodeResults> SingleNodeFromJson(std::string_view text);

}  // namespace paceline::bench

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "job/phases.h"

namespace paceline::job {

// What a run reports at its end, on stdout and in result.json. NaN stands for what this kind of
// model does not have; it is null in JSON.
struct RunSummary {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string model;
  std::string strategy;
  std::string mode;  // of trainers and parameter servers; empty: no servers
  std::string optimizer;
  std::string data;
  std::string run;
  std::int64_t workers = 1;
  std::int64_t shards = 1;
  std::int64_t batch = 0;
  std::int64_t threads = 1;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;    // since the start of the run
  std::uint64_t samples = 0;  // since the start of the run
  double epochs = 0;
  std::uint64_t resumed_from_step = 0;
  double seconds = 0;       // in steps, by this process
  double wall_seconds = 0;  // with evaluation and checkpoints, by this process
  double samples_per_second = 0;
  double final_loss = 0;          // mean over the last steps
  double train_accuracy = kNone;  // over the last steps
  bool evaluated = false;
  double accuracy = kNone;  // held out; of words: analogies found
  double eval_loss = kNone;
  double auc = kNone;
  double best_auc = kNone;    // that any model can have
  double pair_ratio = kNone;  // pairs in the right order / in the wrong one
  double similarity = kNone;  // rank correlation with how alike words are
  std::vector<std::pair<std::string, double>> metrics;  // other held-out figures, by name
  std::uint64_t eval_samples = 0;
  std::string best_metric;    // what evaluations are compared by; empty: there was none
  double best_value = kNone;  // of the best one
  std::uint64_t best_step = 0;
  std::uint64_t params = 0;
  std::uint64_t tensors = 0;
  std::string params_hash;
  std::string ema_hash;  // of the parameters' average; empty: none
  std::uint64_t skipped_steps = 0;
  std::uint64_t bad_records = 0;
  std::uint64_t checkpoint_failures = 0;
  std::int64_t max_rss_bytes = 0;
  bool interrupted = false;
  bool stopped_early = false;  // evaluations did not improve any more
  PhaseTimes phases;
  std::string group;      // what the workers are connected by; empty: a worker alone
  std::string straggler;  // who waited for whom; empty: nobody

  std::string Json() const;
  // "accuracy 91.2 %, loss 0.2710, AUC 0.9912 on 2000 samples": what there is of it.
  std::string HeldOutText() const;
  std::string Text() const;
};

}  // namespace paceline::job

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/catalog.h"

namespace paceline::job {

// One training run, as the user asked for it. Names are those of the flags. A 0 or empty value
// marked "0:" stands for a default that Resolve() fills in.
struct TrainConfig {
  std::string model;
  std::string data = "synthetic";        // or a folder: docs/data.md
  std::string data_cache;                // for indexes of images; empty: .paceline in the data
  std::int64_t image_size = 0;           // height and width; 0: the model's
  std::uint64_t train_samples = 50'000;  // of the synthetic set
  std::uint64_t eval_samples = 0;        // held out; 0: 2,000 synthetic, else the whole test set
  std::string analogies, similarities;   // files to judge words of a text by; empty: none
  std::string augment = "standard";      // or none
  std::string bad_record = "fail";       // or skip
  std::int64_t prefetch = 2;             // steps prepared in advance
  std::string init_from;                 // safetensors file with the first parameters; empty: none
  std::string loss = "cross-entropy";    // of a TorchScript file; mse: the output is like the input
  std::int64_t classes = 10;             // of a TorchScript file: of its data
  bool trust_model_files = false;        // a TorchScript file is a program
  std::string worker_program;            // trains instead of paceline-worker; empty: that one
  std::int64_t data_threads = 1;         // that prepare them
  std::string vocab;                     // of text: a vocabulary file; empty: learnt from the text
  std::string languages;                 // of parallel text: endings of files, e.g. en-de
  std::int64_t batch_tokens = 0;         // of translation: a sample is a pack of so many; 0: a pair
  bool lower_case = false;               // of word pieces that are learnt

  std::string strategy;                // empty: local for one worker, else allreduce; ps
  std::int64_t workers = 1;            // of an elastic run: the most
  std::int64_t min_workers = 0;        // 0: not elastic
  std::int64_t start_workers = 0;      // of an elastic run; 0: the most
  double elastic_timeout = 600;        // seconds to wait with too few workers
  double heartbeat = 0.5;              // seconds
  double dead_timeout = 5;             // seconds of silence after which a worker is replaced
  std::int64_t restarts = 100;         // workers that are started again after they died
  std::string store;                   // of the coordinator; empty: a file in the run directory
  std::string chaos;                   // faults to inject; empty: none
  std::string engine = "native";       // gloo, mpi
  std::string placement = "auto";      // none: workers are not pinned to CPUs
  std::string shared_memory = "auto";  // off: also workers of one host talk over TCP
  std::int64_t bucket_kb = 4096;       // gradients that are reduced together
  std::uint64_t verify_every = 100;    // steps between comparisons of all replicas; 0: at the end
  double blame_every = 60;             // seconds between reports of who is waited for; 0: none
  double collective_timeout = 300;     // seconds
  std::string mode = "sync";           // of strategy ps: async, half-async, geo, ssp
  std::int64_t servers = 1;            // of strategy ps
  std::string wal = "group";           // what servers log before they acknowledge: always, off
  std::int64_t wal_group_ms = 20;      // pushes of so long are made durable together
  std::string table_store = "memory";  // rocksdb: rows that do not fit live on disk
  std::int64_t table_memory_mb = 256;  // of hot rows, for each table of a server on rocksdb
  // Of models with tables; job/table_rules.h says what each may say of which table. Empty: off.
  std::string admit_count, admit_probability, evict_after, table_optimizer, table_lr_scale;
  std::uint64_t staleness = 3;       // of mode ssp: batches ahead of the slowest trainer
  std::uint64_t geo_steps = 100;     // of mode geo: batches between exchanges
  std::uint64_t merge = 4;           // of mode half-async: batches that a trainer merges
  double delay_compensation = 0;     // of mode async: lambda of DC-ASGD; 0: off
  bool pull_ahead = false;           // of models with tables: one round ahead, and so staler
  double server_timeout = 60;        // seconds that trainers wait for a server that is away
  std::string server_away = "wait";  // stale: meanwhile async modes go on with old values
  std::string bind;                  // address to listen on; empty: chosen
  std::int64_t shards = 0;           // 0: as many as workers
  std::int64_t accumulate = 0;       // shards of each worker; Resolve() turns it into `shards`
  std::int64_t batch = 0;            // per virtual shard; 0: the model's
  std::uint64_t steps = 0;           // 0: what the epochs need
  std::uint64_t epochs = 0;          // 0: one, unless steps are given
  std::uint64_t seed = 1;
  std::int64_t threads = 0;    // 0: the cores divided, or one in reproducible mode
  bool threads_given = false;  // by the user, not filled in
  bool reproducible = false;

  // Negative in the recipe: the model's.
  std::string optimizer;  // empty: the model's; sgd, adam, adamw, adagrad, ftrl, lars, lamb
  double lr = 0;          // 0: the model's
  double momentum = -1;
  double beta1 = -1;
  double beta2 = -1;
  double epsilon = -1;
  double trust_coefficient = 0.001;  // of LARS
  double ftrl_l1 = 0;                // of FTRL, whose l2 is the weight decay
  double weight_decay = -1;
  std::string decay_exclude = "none";  // algo::DecayRule
  double label_smoothing = -1;
  double mixup = 0;              // alpha of the Beta distribution; 0: none
  double ema = 0;                // decay of the parameters' average; 0: none
  std::string loss_scale = "1";  // a power of two, or dynamic
  std::string lr_schedule;       // empty: the model's; step, cosine, ...
  std::int64_t warmup_steps = -1;
  std::uint64_t lr_decay_every = 0;
  std::string lr_decay_at;  // epochs, instead; empty: the model's, if its schedule is used
  double lr_gamma = 0.1;
  double lr_floor = 0;
  double lr_power = 2;
  double clip_norm = 0;             // 0: off
  std::string nan_policy = "skip";  // or stop
  std::uint64_t nan_limit = 10;     // steps in a row

  std::uint64_t eval_every = 0;        // steps; 0: at each end of an epoch
  std::uint64_t patience = 0;          // evaluations without improvement; 0: never stops early
  std::uint64_t checkpoint_every = 0;  // steps; 0: at each end of an epoch
  bool keep_best = false;              // also the checkpoint of the best evaluation
  std::int64_t keep = 3;
  bool checkpoint_required = false;
  std::string run;  // directory; empty: runs/MODEL-TIME
  bool resume = false;
  std::string trace;  // file for a Chrome trace; empty: none

  bool json = false;
  bool quiet = false;

  // Synthetic data lives in no folder. Some kinds have variants: "synthetic:reverse".
  bool Synthetic() const { return data == "synthetic" || data.starts_with("synthetic:"); }
  std::uint64_t SyntheticHeldOut() const { return eval_samples == 0 ? 2'000 : eval_samples; }
  bool Elastic() const { return min_workers > 0; }
  bool UsesServers() const { return strategy == "ps"; }
  // Computed without torch, by the `paceline` program itself.
  bool Fused() const;
  // "3", or "2:4" of an elastic run.
  std::string WorkersText() const;
  Status SetWorkers(const std::string& text);
  std::uint64_t GlobalBatch() const { return static_cast<std::uint64_t>(batch * shards); }

  std::size_t BucketBytes() const { return static_cast<std::size_t>(bucket_kb) * 1024; }
  std::chrono::milliseconds CollectiveTimeout() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(collective_timeout * 1000));
  }

  // What decides the parameters that come out. A resumed run must agree on all of it.
  std::map<std::string, std::string> Identity() const;

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

// Everything but where the run lives and how it prints, as TOML that --config reads back.
std::string ToToml(const TrainConfig& config);

// Fills the defaults from the model card and the machine, and refuses what cannot be:
// kInvalidArgument names the flag and the value.
Status Resolve(TrainConfig& config, const model::ModelCard& card, int cores);

// Fields in which two runs differ, as lines "batch: checkpoint 128, now 64"; empty when none.
std::vector<std::string> Differences(const std::map<std::string, std::string>& checkpoint,
                                     const std::map<std::string, std::string>& now);

}  // namespace paceline::job

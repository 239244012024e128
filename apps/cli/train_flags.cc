#include "cli/train_flags.h"

#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "job/machine.h"
#include "job/model_choice.h"

namespace paceline::cli {

namespace {

using job::TrainConfig;

// 0 and -1 stand for a default that depends on something else; the text says on what.
void HideZeroDefaults(CLI::App& group) {
  for (CLI::Option* option : group.get_options()) {
    const std::string shown = option->get_default_str();
    if (shown == "0" || shown == "-1") option->default_str("");
  }
}

void AddModelAndData(CLI::App& app, TrainConfig& config) {
  app.add_option("model,--model", config.model, "Model to train; `paceline models` lists them")
      ->option_text("MODEL");
  const auto group = app.add_option_group("Data");
  group->add_option("--data", config.data,
                    "'synthetic', or a folder: CIFAR-10's binary files, JPEG files in "
                    "train/CLASS and val/CLASS, tar files, or text files; docs/data.md");
  group->add_option("--data-cache", config.data_cache,
                    "Folder that keeps the index of JPEG and tar files (default: .paceline in the "
                    "folder of --data)");
  group->add_option("--image-size", config.image_size,
                    "Height and width of images (default: the model's, of MODEL.pt 32; few models "
                    "of the catalogue take others)");
  group->add_option("--train-samples", config.train_samples, "Size of the synthetic training set");
  group->add_option("--eval-samples", config.eval_samples,
                    "Held-out samples to evaluate on (default: 2000 synthetic, else all)");
  group->add_option("--analogies", config.analogies,
                    "Of words over files: questions in the format of questions-words.txt");
  group->add_option("--similarities", config.similarities,
                    "Of words over files: lines of two words and how alike they are");
  group->add_option("--augment", config.augment,
                    "standard (random crop and flip; of JPEG files a random part) or none");
  group->add_option("--bad-record", config.bad_record,
                    "fail: refuse corrupt data; skip: leave it out and count it");
  group->add_option("--prefetch", config.prefetch, "Steps whose data is prepared in advance");
  group->add_option(
      "--data-threads", config.data_threads,
      "Threads of each worker that prepare data; each has a step of its own in memory");
  group->add_option("--vocab", config.vocab,
                    "Of models of text: vocabulary file (default: learnt from the text, once)");
  group->add_option("--languages", config.languages,
                    "Of parallel text: endings of its files, e.g. en-de (default: src-tgt)");
  group->add_option("--batch-tokens", config.batch_tokens,
                    "Of translation: a sample is a pack of sentences with so many pieces, padding "
                    "included (default: a sample is a pair)");
  group->add_flag("--lower-case", config.lower_case,
                  "Of masked language models: learn a vocabulary without capitals");
  HideZeroDefaults(*group);
}

void AddOwnModel(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Your own model (docs/own-models.md)");
  group->add_option("--init-from", config.init_from,
                    "safetensors file with the first parameters, under PyTorch's names");
  group->add_flag("--trust-model-files", config.trust_model_files,
                  "Train MODEL.pt, a TorchScript file; such a file is a program");
  group->add_option("--classes", config.classes,
                    "Of MODEL.pt: classes of the data; the model may have more");
  group->add_option("--loss", config.loss,
                    "Of MODEL.pt: cross-entropy, or mse of its output and its input");
  group->add_option("--worker-program", config.worker_program,
                    "Program with models of your own that trains instead of paceline-worker");
}

void AddExecution(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Execution");
  group->add_option("--strategy", config.strategy,
                    "local, allreduce or ps, with parameter servers (default: allreduce with "
                    "several workers)");
  group
      ->add_option_function<std::string>(
          "--workers",
          [&config](const std::string& text) {
            if (const Status set = config.SetWorkers(text); !set.ok()) {
              throw CLI::ValidationError(set.message());
            }
          },
          "Worker processes on this machine; MIN:MAX for an elastic run, which goes on when some "
          "die")
      ->default_str("1");
  group->add_option("--shards", config.shards,
                    "Virtual shards of the global batch (default: the workers)");
  group
      ->add_option("--accumulate", config.accumulate,
                   "Batches whose gradients each worker adds up in a step: the same as --shards "
                   "with so many for each worker")
      ->configurable(false);
  group->add_option("--batch", config.batch, "Samples per virtual shard (default: the model's)");
  group->add_option("--steps", config.steps, "Stop after this many steps");
  group->add_option("--epochs", config.epochs, "Stop after this many passes (default 1)");
  group->add_option("--seed", config.seed, "Decides every random number");
  group->add_option("--threads", config.threads,
                    "Threads per worker (default: the cores divided; 1 with --reproducible)");
  group->add_flag("--reproducible", config.reproducible,
                  "The same bits on every machine: one thread unless --threads is given");
  HideZeroDefaults(*group);
}

void AddGroup(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Several workers");
  group->add_option("--engine", config.engine,
                    "native (the same bits for every number of workers), gloo, or mpi");
  group->add_option("--placement", config.placement,
                    "auto: workers get CPUs of their own; none: the system decides");
  group->add_option("--shared-memory", config.shared_memory,
                    "auto: workers of one machine share memory; off: they use TCP");
  group->add_option("--bucket-kb", config.bucket_kb, "Gradients that are reduced together");
  group->add_option("--verify-every", config.verify_every,
                    "Steps between comparisons of all workers' parameters; 0: only at the end");
  group->add_option("--blame-every", config.blame_every,
                    "Seconds between reports of who and what the workers wait for; 0: none");
  group->add_option("--collective-timeout", config.collective_timeout,
                    "Seconds to wait for the other workers");
  group->add_option("--bind", config.bind,
                    "Address to listen on (default: loopback, or where the coordinator is)");
}

void AddElastic(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Elastic runs (--workers MIN:MAX)");
  group->add_option("--start-workers", config.start_workers,
                    "Workers to begin with (default: MAX)");
  group->add_option("--elastic-timeout", config.elastic_timeout,
                    "Seconds to wait with fewer than MIN workers; then exit 14");
  group->add_option("--heartbeat", config.heartbeat, "Seconds between signs of life");
  group->add_option("--dead-timeout", config.dead_timeout,
                    "Seconds of silence after which a worker is given up");
  group->add_option("--restarts", config.restarts,
                    "Dead workers that are replaced, also with --strategy ps; 0: none");
  group->add_option("--store", config.store,
                    "Where the coordinator keeps its state: file:PATH or etcd://HOST:PORT "
                    "(default: a file in the run directory)");
  group
      ->add_option("--chaos", config.chaos,
                   "Faults to inject, e.g. kill=worker:1@step40,stop=worker:2@step60:6s,"
                   "cut=worker:0@step80:8s,join=@step100; with --strategy ps kill=server:1@step40 "
                   "and kill=trainer:0@step60; docs/elastic.md")
      ->configurable(false);
  HideZeroDefaults(*group);
}

void AddServers(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Parameter server (--strategy ps)");
  group->add_option("--servers", config.servers, "Server processes, which share the parameters");
  group->add_option("--mode", config.mode,
                    "When pushes take effect: sync, async, half-async, geo or ssp");
  group->add_option("--staleness", config.staleness,
                    "Of mode ssp: batches that a trainer may be ahead of the slowest");
  group->add_option("--geo-steps", config.geo_steps, "Of mode geo: batches between exchanges");
  group->add_option("--merge", config.merge,
                    "Of mode half-async: batches that a trainer merges before it pushes");
  group->add_option("--delay-compensation", config.delay_compensation,
                    "Of mode async: lambda of DC-ASGD (default: off)");
  group->add_flag("--pull-ahead", config.pull_ahead,
                  "Pull the next batch's parameters while one is computed: faster where servers "
                  "are far away, at the price of gradients that are one batch older");
  group->add_option("--wal", config.wal,
                    "What a server logs before it acknowledges a push: always, group (several "
                    "pushes together) or off");
  group->add_option("--wal-group-ms", config.wal_group_ms,
                    "Pushes of so many milliseconds are made durable together");
  group->add_option("--table-store", config.table_store,
                    "memory, or rocksdb: rows that do not fit live on disk");
  group->add_option("--table-memory-mb", config.table_memory_mb,
                    "Hot rows of each table of a server on rocksdb");
  group->add_option("--server-timeout", config.server_timeout,
                    "Seconds that trainers wait for a server that is away");
  group->add_option("--server-away", config.server_away,
                    "wait, or stale: meanwhile trainers of modes async and half-async go on with "
                    "the values that they pulled last, until too many pushes wait");
  HideZeroDefaults(*group);
}

void AddTables(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Tables (one value, or TABLE=VALUE,...)");
  group->add_option("--admit-count", config.admit_count,
                    "An id gets a row with its push number N; before, it keeps its first values "
                    "(default: 1)");
  group->add_option("--admit-probability", config.admit_probability,
                    "A share of all ids, chosen by hash, gets rows (default: 1)");
  group->add_option("--evict-after", config.evict_after,
                    "Rows are removed that got no push for N rounds (default: never)");
  group->add_option("--table-optimizer", config.table_optimizer,
                    "sgd, momentum, adam, adamw, adagrad or ftrl for rows of tables (default: "
                    "--optimizer)");
  group->add_option("--table-lr-scale", config.table_lr_scale,
                    "Factor on the learning rate of rows (default: 1)");
}

void AddOptimizer(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Optimizer");
  group->add_option("--optimizer", config.optimizer,
                    "sgd, adam, adamw, adagrad, ftrl, lars or lamb (default: the model's)");
  group->add_option("--lr", config.lr, "Learning rate (default: the model's)");
  group->add_option(
      "--momentum", config.momentum,
      "For sgd and lars (default: the model's, or 0) and --table-optimizer momentum (0.9)");
  group->add_option("--beta1", config.beta1,
                    "For adam, adamw and lamb (default: the model's, or 0.9)");
  group->add_option("--beta2", config.beta2, "Likewise (default: the model's, or 0.999)");
  group->add_option("--epsilon", config.epsilon,
                    "For all but sgd and ftrl (default: the model's, or the optimizer's)");
  group->add_option("--trust-coefficient", config.trust_coefficient, "For lars");
  group->add_option("--ftrl-l1", config.ftrl_l1, "L1 penalty of ftrl: weights below it are 0");
  group->add_option("--weight-decay", config.weight_decay,
                    "L2 penalty; adamw and lamb: decoupled from the gradient (default: the "
                    "model's, or 0)");
  group->add_option("--decay-exclude", config.decay_exclude,
                    "Parameters without weight decay: none, norm-bias (tensors of rank 1), or "
                    "patterns of names, as in norm-bias,*.embedding.*");
  group->add_option("--lr-schedule", config.lr_schedule,
                    "constant, step, cosine, inverse-sqrt, linear, poly or one-cycle (default: the "
                    "model's, or constant)");
  group->add_option("--warmup-steps", config.warmup_steps,
                    "Steps of linear warm-up (default: the model's, or 0)");
  group->add_option("--lr-decay-every", config.lr_decay_every, "Steps, for --lr-schedule step");
  group->add_option("--lr-decay-at", config.lr_decay_at,
                    "Epochs after which the rate falls, for --lr-schedule step, as in 30,60,80 "
                    "(default: the model's)");
  group->add_option("--lr-gamma", config.lr_gamma, "Factor, for --lr-schedule step");
  group->add_option("--lr-floor", config.lr_floor,
                    "Lowest rate, for --lr-schedule cosine, linear, poly and one-cycle");
  group->add_option("--lr-power", config.lr_power, "Exponent, for --lr-schedule poly");
  group->add_option("--label-smoothing", config.label_smoothing,
                    "Share of the target that all classes divide (default: the model's, or 0)");
  group->add_option(
      "--mixup", config.mixup,
      "Mix pairs of training images and their labels; alpha of the Beta distribution, "
      "up to 1 (default: none)");
  group->add_option("--ema", config.ema,
                    "Decay of an average of the parameters, which is evaluated and saved too "
                    "(default: no average)");
  group->add_option("--loss-scale", config.loss_scale,
                    "Factor on the loss while gradients are computed: a power of two, or dynamic");
  group->add_option("--clip-norm", config.clip_norm, "Largest gradient norm (default: no limit)");
  group->add_option("--nan-policy", config.nan_policy,
                    "When loss or gradient is not finite: skip the step, or stop");
  group->add_option("--nan-limit", config.nan_limit, "Stop after this many skipped steps in a row");
  HideZeroDefaults(*group);
}

void AddRecords(CLI::App& app, TrainConfig& config) {
  const auto group = app.add_option_group("Records");
  group->add_option("--run", config.run, "Run directory (default: runs/MODEL-TIME)")
      ->configurable(false);
  group->add_flag("--resume", config.resume, "Continue the run in --run from its newest checkpoint")
      ->configurable(false);
  group->add_option("--checkpoint-every", config.checkpoint_every,
                    "Steps between checkpoints (default: each epoch)");
  group->add_option("--keep", config.keep, "Checkpoints to keep");
  group->add_flag("--keep-best", config.keep_best,
                  "Save at each evaluation that is the best so far, and keep the best one");
  group->add_flag("--checkpoint-required", config.checkpoint_required,
                  "Stop when a checkpoint cannot be written");
  group->add_option("--eval-every", config.eval_every,
                    "Steps between evaluations (default: each epoch)");
  group->add_option("--patience", config.patience,
                    "Stop after this many evaluations without a better one (default: never)");
  group
      ->add_option("--trace", config.trace,
                   "Write a timeline for chrome://tracing and Perfetto to this file")
      ->configurable(false);
  group->add_flag("--json", config.json, "Print the summary as one JSON object")
      ->configurable(false);
  group->add_flag("-q,--quiet", config.quiet, "No progress on stderr")->configurable(false);
  HideZeroDefaults(*group);
}

Result<TrainRequest> ParseOnce(const std::vector<std::string>& arguments) {
  TrainRequest request;
  CLI::App app(
      "Train a model. Progress goes to stderr, the summary to stdout. Ctrl-C saves and "
      "exits 0; --resume goes on from there, bit for bit.",
      "paceline train");
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddModelAndData(app, request.config);
  AddOwnModel(app, request.config);
  AddExecution(app, request.config);
  AddGroup(app, request.config);
  AddElastic(app, request.config);
  AddServers(app, request.config);
  AddTables(app, request.config);
  AddOptimizer(app, request.config);
  AddRecords(app, request.config);
  app.set_config("--config", "", "TOML file with any of these flags; flags win")
      ->configurable(false);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.footer(
      "Exit codes: 0 done or interrupted, 2 usage, 10 mismatch, 11 secret, 12 data, 13 "
      "checkpoint,\n"
      "14 too few workers, 15 not finite, 16 disk, 17 evicted, 18 already running, 75 lost a "
      "worker;\ndocs/errors.md explains each.");
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 pops the back
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    request.help = true;
    request.help_text = app.help();
  } catch (const CLI::Error& error) {
    return Status::Error(Code::kInvalidArgument,
                         std::string(error.what()) + "; see `paceline train --help`");
  }
  return request;
}

bool Has(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == flag || argument.starts_with(flag + "=");
  });
}

}  // namespace

Result<TrainRequest> ParseTrainArguments(const std::vector<std::string>& arguments) {
  PACELINE_ASSIGN(TrainRequest request, ParseOnce(arguments));
  const TrainConfig& first = request.config;
  const std::string recorded = first.run + "/config.toml";
  std::error_code ignored;
  if (first.resume && first.run.empty()) {
    return Status::Error(Code::kInvalidArgument, "--resume needs --run DIR");
  }
  if (!first.resume || Has(arguments, "--config") || !std::filesystem::exists(recorded, ignored)) {
    return request;
  }
  // The run's own record comes first, so that `--resume --run DIR` is enough.
  std::vector<std::string> all{"--config", recorded};
  all.insert(all.end(), arguments.begin(), arguments.end());
  PACELINE_ASSIGN(request, ParseOnce(all));
  if (Has(arguments, "--steps") && !Has(arguments, "--epochs")) request.config.epochs = 0;
  if (Has(arguments, "--epochs") && !Has(arguments, "--steps")) request.config.steps = 0;
  return request;
}

Status CheckTraining(TrainConfig& config) {
  if (config.model.empty()) {
    return Status::Error(Code::kInvalidArgument, "which MODEL? `paceline models` lists them");
  }
  PACELINE_ASSIGN(const model::ModelCard card, job::ChooseModel(config));
  return Resolve(config, card, job::ReadMachine().cores);
}

}  // namespace paceline::cli

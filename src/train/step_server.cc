#include "train/step_server.h"

#include <sys/resource.h>

#include <istream>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algo/learning_rate.h"
#include "base/json_writer.h"
#include "data/loader.h"
#include "model/catalog.h"
#include "train/data_source.h"
#include "train/random_text.h"
#include "train/trainer.h"

namespace paceline::train {

namespace {

// More steps than any benchmark runs; the loader only ever prepares two ahead.
constexpr std::uint64_t kManySteps = 1'000'000'000;

class StepServer {
 public:
  StepServer(const StepServerOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        plan_{.seed = options.seed,
              .batch = static_cast<std::uint64_t>(options.batch),
              .shards = options.engine == nullptr ? 1 : options.engine->world()} {}

  Status Open() {
    PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(options_.model));
    // With its warm-up: a model that diverges computes with denormal numbers, many times as slowly.
    const std::string schedule = card->lr_schedule.empty() ? "constant" : card->lr_schedule;
    PACELINE_ASSIGN(schedule_.kind, algo::ParseLearningRateKind(schedule));
    schedule_.base = card->learning_rate;
    schedule_.warmup_steps = card->warmup_steps;
    schedule_.total_steps = kManySteps;
    PACELINE_ASSIGN(source_, OpenSource(*card));
    plan_.dataset_size = source_->size();
    plan_.total_samples = kManySteps * plan_.GlobalBatch();
    PACELINE_ASSIGN(BuiltModel model, BuildModel(card->name, options_.seed));
    PACELINE_ASSIGN(trainer_, Trainer::Create(std::move(model),
                                              {.seed = options_.seed,
                                               .shards = plan_.shards,
                                               .optimizer = {.name = card->optimizer},
                                               .engine = options_.engine},
                                              clock_));
    PACELINE_ASSIGN(loader_, data::BatchLoader::Create(*source_, plan_,
                                                       {.first_shard = trainer_->first_shard(),
                                                        .end_shard = trainer_->end_shard()}));
    return {};
  }

  std::string Ready() const {
    return JsonObject()
        .Add("ready", true)
        .Add("system", "Paceline")
        .Add("version", PACELINE_VERSION)
        .Add("model", options_.model)
        .Add("params", trainer_->params().ElementCount())
        .Add("tensors", trainer_->params().ranges().size())
        .Add("batch", options_.batch)
        .Add("threads", options_.threads)
        .Text();
  }

  Result<std::string> Run(std::uint64_t steps) {
    const Instant started = clock_.Now();
    double loss = 0;
    std::vector<double> step_seconds;
    step_seconds.reserve(steps);
    for (Instant step_started = started; step_seconds.size() < steps;) {
      PACELINE_ASSIGN(
          const StepOutcome outcome,
          trainer_->RunStep({.step = step_,
                             .samples = plan_.GlobalBatch(),
                             .learning_rate = algo::LearningRateAt(schedule_, step_.value())},
                            [&] { return loader_->Next(std::stop_token()); }));
      loss = outcome.loss;
      step_ = step_.Next();
      const Instant now = clock_.Now();
      step_seconds.push_back(ToSeconds(now - std::exchange(step_started, now)));
    }
    return JsonObject()
        .Add("seconds", ToSeconds(clock_.Now() - started))
        .Add("samples", steps * plan_.batch)
        .Add("loss", loss)
        .AddRaw("step_seconds", fmt::format("[{}]", fmt::join(step_seconds, ",")))
        .Text();
  }

  // A group that was fast because it did not add up its gradients would be no result.
  Status Finish() { return options_.engine == nullptr ? Status() : trainer_->VerifyReplicas(); }

 private:
  // Sentences differ in length, and a peer's must not: models of text get random ones of one
  // length.
  Result<std::unique_ptr<data::BatchSource>> OpenSource(const model::ModelCard& card) const {
    if (card.vocabulary > 0)
      return std::unique_ptr<data::BatchSource>(std::make_unique<RandomText>(card));
    PACELINE_ASSIGN(DataSource data,
                    OpenData({.model = card.name, .augment = "none", .seed = options_.seed}));
    return std::move(data.train);
  }

  StepServerOptions options_;
  const Clock& clock_;
  std::unique_ptr<data::BatchSource> source_;
  algo::BatchPlan plan_;
  algo::LearningRateSchedule schedule_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<data::BatchLoader> loader_;
  Step step_;
};

}  // namespace

Status ServeSteps(const StepServerOptions& options, const Clock& clock, std::istream& in,
                  std::ostream& out) {
  SetTorchThreads(static_cast<int>(options.threads));
  StepServer server(options, clock);
  PACELINE_TRY(server.Open());
  out << server.Ready() << std::endl;
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string command;
    std::uint64_t steps = 0;
    words >> command >> steps;
    if (command == "quit") break;
    if (command != "run" || steps == 0) {
      return Status::Error(
          Code::kInvalidArgument,
          fmt::format("step server: cannot read '{}'; say 'run K' or 'quit'", line));
    }
    PACELINE_ASSIGN(const std::string answer, server.Run(steps));
    out << answer << std::endl;
  }
  PACELINE_TRY(server.Finish());
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  out << JsonObject().Add("max_rss_bytes", std::int64_t{usage.ru_maxrss} * 1024).Text()
      << std::endl;
  return {};
}

}  // namespace paceline::train

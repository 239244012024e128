#include "fused/round_source.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"

namespace paceline::fused {

RoundSource::RoundSource(const sparse::FusedModel& model, std::size_t dense_floats,
                         ps::Store& store, BatchQueue& queue, const Options& options,
                         const Clock& clock)
    : store_(store),
      queue_(queue),
      options_(options),
      clock_(clock),
      places_{PulledRound(model.tables(), dense_floats), PulledRound(model.tables(), dense_floats)},
      next_(options.first_round) {
  if (options.ahead) thread_ = StartThread("pull", [this] { FetchAhead(); });
}

RoundSource::~RoundSource() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

Result<PulledRound*> RoundSource::Next(job::PhaseTimes& phases) {
  const std::uint64_t round = next_;
  bool ahead = false;
  {
    const MutexLock lock(mutex_);
    ahead = round < wanted_;
  }
  if (ahead) {
    const job::PhaseScope scope(clock_, phases, job::Phase::kWait);
    PACELINE_TRY(AwaitFetched(round));
  } else {
    PACELINE_TRY(Fetch(round, phases));
  }
  PulledRound& here = Place(round);
  if (here.samples > 0) version_ = here.pulled.version;
  ++next_;
  if (options_.ahead && next_ < options_.share.Rounds() && MinVersion(next_) <= version_) {
    const MutexLock lock(mutex_);
    fetched_ = next_;
    wanted_ = next_ + 1;
    changed_.notify_all();
  } else if (!options_.ahead && next_ < options_.share.Rounds()) {
    const job::PhaseScope scope(clock_, phases, job::Phase::kWait);
    Announce(next_);
  }
  return &here;
}

// Only if its batches are ready: nobody waits for them sooner than they are needed. An error is
// that of its round.
void RoundSource::Announce(std::uint64_t round) {
  if (queue_.ready() < BatchesOf(round)) return;
  announced_ = TakeBatches(round);
  queue_.Continue();
  if (announced_->ok() && Place(round).samples > 0) announced_ = store_.Announce(RequestOf(round));
}

Status RoundSource::AwaitFetched(std::uint64_t round) {
  const MutexLock lock(mutex_);
  while (fetched_ <= round && failure_.ok()) changed_.wait(mutex_);
  return failure_;
}

void RoundSource::FetchAhead() {
  job::PhaseTimes unseen;  // it happens beside the caller's phases
  for (;;) {
    std::uint64_t round = 0;
    {
      const MutexLock lock(mutex_);
      while (fetched_ >= wanted_ && !stopped_) changed_.wait(mutex_);
      if (stopped_) return;
      round = fetched_;
    }
    Status status = Fetch(round, unseen);
    const MutexLock lock(mutex_);
    failure_ = std::move(status);
    fetched_ = round + 1;
    changed_.notify_all();
    if (!failure_.ok()) return;
  }
}

std::uint64_t RoundSource::MinVersion(std::uint64_t round) const {
  if (options_.mode == Mode::kSync) return round;
  return options_.mode == Mode::kSsp ? round - std::min(round, options_.staleness) : 0;
}

std::size_t RoundSource::BatchesOf(std::uint64_t round) const {
  const algo::TrainerShare& share = options_.share;
  return (share.EndStep(round) - share.FirstStep(round)) * share.RangesOf(0).size();
}

Status RoundSource::TakeBatches(std::uint64_t round) {
  PulledRound& into = Place(round);
  for (auto& batch : into.batches) queue_.Recycle(std::move(batch));
  into.batches.clear();
  into.pulled = {};
  const std::size_t count = BatchesOf(round);
  into.batches.reserve(count);
  into.samples = 0;
  for (std::size_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN(auto batch, queue_.Next());
    into.samples += batch->samples;
    into.batches.push_back(std::move(batch));
  }
  if (into.samples > 0) into.rows.Begin(into.batches);
  return {};
}

Status RoundSource::Fetch(std::uint64_t round, job::PhaseTimes& phases) {
  if (const auto announced = std::exchange(announced_, std::nullopt)) {
    PACELINE_TRY(*announced);
  } else {
    const job::PhaseScope scope(clock_, phases, job::Phase::kData);
    PACELINE_TRY(TakeBatches(round));
  }
  Status pulled = Place(round).samples == 0 ? Status() : Pull(round, phases);
  queue_.Continue();
  return pulled;
}

ps::PullRequest RoundSource::RequestOf(std::uint64_t round) {
  PulledRound& into = Place(round);
  // Of a round that is fetched ahead, the one before is still being computed.
  const std::uint64_t own = options_.ahead && round > options_.first_round ? round - 1 : round;
  ps::PullRequest request{
      .trainer = options_.share.lease, .min_version = MinVersion(round), .own_batches = own};
  request.rows = into.rows.Wanted();
  request.dense = into.dense;
  return request;
}

Status RoundSource::Pull(std::uint64_t round, job::PhaseTimes& phases) {
  const job::PhaseScope scope(clock_, phases, job::Phase::kWait);
  PACELINE_ASSIGN(Place(round).pulled, store_.Pull(RequestOf(round)));
  return {};
}

}  // namespace paceline::fused

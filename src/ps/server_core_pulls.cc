// What a server's core answers to pulls, and how they wait for pushes.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "ps/server_core_impl.h"

namespace paceline::ps {

namespace {

// How often a pull that waits asks whether it should stop.
constexpr std::chrono::milliseconds kAskStopped{20};

// Who computes a round of trainers that wait for each other needs exactly the state before it.
bool Repeats(const JobSpec& spec, const PullRequest& request, const PullAnswer& answer) {
  return spec.apply == Apply::kTogether && request.touch == Touch::kTrain &&
         answer.version == request.min_version + 1;
}

}  // namespace

bool ServerCore::Impl::IsDue(const PullRequest& request) const {
  const bool own_applied =
      request.own_batches == 0 || progress_.NextBatch(request.trainer) >= request.own_batches;
  return own_applied && progress_.version() >= request.min_version;
}

bool ServerCore::Impl::IsDueAfter(const ps::Push& push, const PullRequest& request) const {
  std::uint64_t own = progress_.NextBatch(request.trainer);
  if (request.trainer == push.lease) own = std::max(own, push.batch + 1);
  return (request.own_batches == 0 || own >= request.own_batches) &&
         progress_.VersionAfter(push) >= request.min_version;
}

// Those that wait for nothing but this push. Their callers wait until they are returned.
std::vector<WaitingPull> ServerCore::Impl::ClaimPulls(const ps::Push& push) {
  std::vector<WaitingPull> claimed;
  for (PullInWaiting* const pull : pulls_) {
    if (IsDue(*pull->request) || !IsDueAfter(push, *pull->request)) continue;
    pull->is_claimed = true;
    claimed.push_back({pull->request, pull->prepared});
  }
  return claimed;
}

void ServerCore::Impl::ReturnPulls() {
  for (PullInWaiting* const pull : pulls_) {
    if (!std::exchange(pull->is_claimed, false)) continue;
    if (!failure_.ok() || !IsDue(*pull->request)) continue;
    pull->prepared->has_rows = true;
    pull->answer = AnswerNow();
  }
  changed_.notify_all();
}

PullAnswer ServerCore::Impl::AnswerNow() const {
  return {.version = progress_.version(), .pushes = {AppliedPushes()}};
}

// Looks for rows while the push is computed that a pull waits for.
Result<PreparedPull> ServerCore::Impl::SeekRows(ServerValues& values,
                                                const PullRequest& request) const {
  {
    const MutexLock lock(state_);
    if (IsDue(request)) return PreparedPull();
  }
  return values.Prepare(request);
}

Status ServerCore::Impl::AwaitDue(const PullInWaiting& pull, const std::function<bool()>& stopped) {
  for (;;) {
    const bool stops = stopped && stopped();
    const MutexLock lock(state_);
    if (!pull.is_claimed) {
      if (stops) return Status::Error(Code::kAborted, "a pull was called off");
      PACELINE_TRY(failure_);
      if (IsDue(*pull.request)) return {};
      if (interrupted_) return Status::Error(Code::kAborted, "the server stops");
    }
    changed_.wait_for(state_, kAskStopped);
  }
}

Result<PullAnswer> ServerCore::Impl::Await(const PullRequest& request, PreparedPull& prepared,
                                           const std::function<bool()>& stopped) {
  PullInWaiting pull{.request = &request, .prepared = &prepared};
  const bool is_prepared = prepared.sought.size() == request.rows.size();
  if (is_prepared) {
    const MutexLock lock(state_);
    pulls_.push_back(&pull);
  }
  const Status status = AwaitDue(pull, stopped);
  const MutexLock lock(state_);
  while (pull.is_claimed) changed_.wait(state_);  // between two looks at it
  std::erase(pulls_, &pull);
  PACELINE_TRY(status);
  return prepared.has_rows ? pull.answer : AnswerNow();
}

Result<PullAnswer> ServerCore::Impl::Pull(const PullRequest& request,
                                          const std::function<bool()>& stopped,
                                          const DenseCopied& copied) {
  PACELINE_ASSIGN(ServerValues* const values, Ready());
  if (request.min_version > 0 && values->spec().trainers == 0) {
    return Status::Error(Code::kInvalidArgument,
                         "a pull that waits for all trainers, and nobody knows how many");
  }
  PACELINE_ASSIGN(PreparedPull prepared, SeekRows(*values, request));
  PACELINE_ASSIGN(PullAnswer answer, Await(request, prepared, stopped));
  const bool repeats = Repeats(values->spec(), request, answer);
  const bool tells = copied && !repeats;  // what it is told does not change any more
  PACELINE_TRY(values->Pull(request, std::move(prepared), [&](std::size_t floats) {
    if (tells) copied(answer, floats);
  }));
  if (repeats && !values->RestoreBefore(request.min_version, request)) {
    PACELINE_LOG(Warning, "trainer {} repeats round {} with values that have it already",
                 request.trainer, request.min_version);
  }
  return answer;
}

std::uint64_t ServerCore::Impl::DenseChanges(const PullRequest& request,
                                             const PullAnswer& answer) const {
  const auto values = Ready();
  const bool copies = !values.ok() || Repeats((*values)->spec(), request, answer) ||
                      (*values)->KeepsPulled(request);
  return copies ? kBeingChanged : (*values)->dense().Changes();
}

}  // namespace paceline::ps

// The part of CoordinatorLogic that lends samples to workers which do not step together.
#include <fmt/format.h>

#include "member/coordinator_logic.h"

namespace paceline::member {

namespace {

Note AboutLease(const char* type, MemberId member, const Lease& lease) {
  return {.type = type,
          .member = member,
          .numbers = {{"lease", static_cast<double>(lease.number)},
                      {"begin", static_cast<double>(lease.range.begin)},
                      {"count", static_cast<double>(lease.range.count)},
                      {"done", static_cast<double>(lease.done)}}};
}

}  // namespace

// To all who asked and are part of the view; below the minimum of workers nobody gets more.
void CoordinatorLogic::Lend() {
  if (!leased() || phase_ != RunPhase::kRunning) return;
  // It was before: a coordinator died before it could say so, or the run is resumed.
  if (state_.leases.complete()) return End(Code::kOk, "complete");
  std::vector<std::pair<MemberId, Lease>> lent;
  for (auto& [id, person] : people_) {
    if (!person.wants_lease || person.leaving || !person.connection || !InView(id)) continue;
    const std::optional<Lease> lease = state_.leases.Take(id);
    if (!lease) continue;
    person.wants_lease = false;
    lent.emplace_back(id, *lease);
  }
  if (lent.empty()) return;
  actions_.emplace_back(SaveState{state_});
  for (const auto& [id, lease] : lent) {
    Tell(AboutLease("lease", id, lease));
    Send(people_.at(id),
         wire::LeaseGrant{lease.number, lease.range.begin, lease.range.count, lease.done});
  }
}

void CoordinatorLogic::OnLeaseProgress(Iterator who, const wire::LeaseProgress& message) {
  const auto open = state_.leases.open().find(message.lease);
  const std::optional<Lease> before =
      open == state_.leases.open().end() ? std::nullopt : std::optional(open->second);
  const Result<bool> finished = state_.leases.Advance(who->first, message.lease, message.done);
  if (finished.status().code() == Code::kProtocol) {
    return Lose(who, finished.status().message(), Code::kProtocol);
  }
  // Said again after a connection or a coordinator was lost: it counted already.
  if (!finished.ok() || !*finished) return;
  Lease done = *before;
  done.done = done.range.count;
  actions_.emplace_back(SaveState{state_});
  Tell(AboutLease("lease-done", who->first, done));
  if (state_.leases.complete()) End(Code::kOk, "complete");
}

void CoordinatorLogic::GiveBack(MemberId id) {
  const std::vector<Lease> given = state_.leases.GiveBack(id);
  for (const Lease& lease : given) Tell(AboutLease("lease-back", id, lease));
  if (given.empty()) return;
  actions_.emplace_back(SaveState{state_});
  Lend();
}

}  // namespace paceline::member

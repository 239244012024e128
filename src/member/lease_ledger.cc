#include "member/lease_ledger.h"

#include <algorithm>

#include <fmt/format.h>

#include "wire/messages.h"

namespace paceline::member {

namespace {

Lease Fresh(const LeasePlan& plan, std::uint64_t number) {
  const std::uint64_t begin = number * plan.size;
  return {.number = number, .range = {begin, std::min(plan.size, plan.total - begin)}};
}

}  // namespace

std::uint64_t LeaseLedger::End() const {
  return plan_.enabled() ? (plan_.total - 1) / plan_.size + 1 : 0;
}

std::optional<Lease> LeaseLedger::Take(MemberId member) {
  const auto held =
      std::ranges::find_if(open_, [&](const auto& entry) { return entry.second.holder == member; });
  if (held != open_.end()) return held->second;
  const auto free = std::ranges::find_if(
      open_, [](const auto& entry) { return entry.second.holder == MemberId(0); });
  if (free != open_.end()) {
    free->second.holder = member;
    return free->second;
  }
  if (next_ == End()) return std::nullopt;
  Lease lease = Fresh(plan_, next_++);
  lease.holder = member;
  open_.emplace(lease.number, lease);
  return lease;
}

Result<bool> LeaseLedger::Advance(MemberId member, std::uint64_t number, std::uint64_t done) {
  const auto found = open_.find(number);
  if (found == open_.end() || found->second.holder != member) {
    return Status::Error(Code::kFenced,
                         fmt::format("lease {} is not worker {}'s", number, member.value()));
  }
  Lease& lease = found->second;
  if (done > lease.range.count) {
    return Status::Error(Code::kProtocol, fmt::format("{} of {} positions of lease {}", done,
                                                      lease.range.count, number));
  }
  lease.done = std::max(lease.done, done);
  if (lease.done < lease.range.count) return false;
  open_.erase(found);
  return true;
}

std::vector<Lease> LeaseLedger::GiveBack(MemberId member) {
  std::vector<Lease> given;
  for (auto& [number, lease] : open_) {
    if (lease.holder != member) continue;
    given.push_back(lease);
    lease.holder = MemberId(0);
  }
  return given;
}

std::uint64_t LeaseLedger::positions_done() const {
  std::uint64_t done = std::min(next_ * plan_.size, plan_.total);
  for (const auto& [number, lease] : open_) done -= lease.range.count - lease.done;
  return done;
}

void LeaseLedger::Write(wire::ByteWriter& writer) const {
  writer.Number(plan_.total);
  writer.Number(plan_.size);
  writer.Number(next_);
  writer.Number(static_cast<std::uint32_t>(open_.size()));
  for (const auto& [number, lease] : open_) {
    writer.Number(number);
    writer.Number(lease.done);
    writer.Number(lease.holder.value());
  }
}

LeaseLedger LeaseLedger::Read(wire::ByteReader& reader) {
  LeaseLedger ledger;
  ledger.plan_.total = reader.Number<std::uint64_t>();
  ledger.plan_.size = reader.Number<std::uint64_t>();
  ledger.next_ = reader.Number<std::uint64_t>();
  const auto count = reader.Number<std::uint32_t>();
  if ((ledger.plan_.enabled() && ledger.plan_.size == 0) || ledger.next_ > ledger.End() ||
      count > ledger.next_ || count > 2 * wire::kMaxWorld) {
    reader.Fail();
    return {};
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto number = reader.Number<std::uint64_t>();
    if (number >= ledger.next_) {
      reader.Fail();
      return {};
    }
    Lease lease = Fresh(ledger.plan_, number);
    lease.done = reader.Number<std::uint64_t>();
    lease.holder = MemberId(reader.Number<std::uint64_t>());
    if (lease.done >= lease.range.count || !ledger.open_.emplace(number, lease).second) {
      reader.Fail();
    }
  }
  return ledger;
}

}  // namespace paceline::member

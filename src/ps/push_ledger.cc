#include "ps/push_ledger.h"

#include <limits>

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::ps {

Result<PushLedger::Answer> PushLedger::Check(std::uint64_t lease, std::uint64_t batch) const {
  const std::uint64_t next = NextBatch(lease);
  if (batch < next) return Answer::kDuplicate;
  const auto found = open_.find(lease);
  if (batch == next && (found == open_.end() || !found->second.finished)) return Answer::kApply;
  return Status::Error(Code::kProtocol,
                       fmt::format("batch {} of lease {}: the next is {}{}", batch, lease, next,
                                   batch == next ? ", and there is none" : ""));
}

void PushLedger::Applied(std::uint64_t lease, std::uint64_t batch, bool last) {
  PACELINE_CHECK(lease >= finished_below_ && batch == NextBatch(lease), "Check() comes first");
  open_[lease] = {.next = batch + 1, .finished = last};
  ++pushes_;
  for (auto first = open_.begin();
       first != open_.end() && first->first == finished_below_ && first->second.finished;
       first = open_.erase(first)) {
    ++finished_below_;
  }
}

std::uint64_t PushLedger::NextBatch(std::uint64_t lease) const {
  if (lease < finished_below_) return std::numeric_limits<std::uint64_t>::max();
  const auto found = open_.find(lease);
  return found == open_.end() ? 0 : found->second.next;
}

void PushLedger::Write(wire::ByteWriter& writer) const {
  writer.Number(finished_below_);
  writer.Number(pushes_);
  writer.Number(static_cast<std::uint32_t>(open_.size()));
  for (const auto& [lease, progress] : open_) {
    writer.Number(lease);
    writer.Number(progress.next);
    writer.Number(static_cast<std::uint8_t>(progress.finished ? 1 : 0));
  }
}

PushLedger PushLedger::Read(wire::ByteReader& reader) {
  constexpr std::size_t kEntryBytes = 17;
  PushLedger ledger;
  ledger.finished_below_ = reader.Number<std::uint64_t>();
  ledger.pushes_ = reader.Number<std::uint64_t>();
  const auto count = reader.Number<std::uint32_t>();
  if (count > reader.left() / kEntryBytes) {
    reader.Fail();
    return {};
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto lease = reader.Number<std::uint64_t>();
    const auto next = reader.Number<std::uint64_t>();
    const auto finished = reader.Number<std::uint8_t>();
    const bool fits = lease >= ledger.finished_below_ && next > 0 && finished <= 1;
    if (!fits || !ledger.open_.emplace(lease, Progress{next, finished == 1}).second) reader.Fail();
  }
  return ledger;
}

}  // namespace paceline::ps

#include "ps/change_log.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace paceline::ps {

Status CutChange(ChangeType type, std::uint64_t number, std::span<const std::byte> payload,
                 std::size_t part_bytes, const RecordSink& sink) {
  const std::size_t parts =
      std::max<std::size_t>(1, (payload.size() + part_bytes - 1) / part_bytes);
  if (parts > std::numeric_limits<std::uint32_t>::max()) {
    return Status::Error(Code::kInvalidArgument, "a change that is too large for the log");
  }
  for (std::size_t part = 0; part < parts; ++part) {
    const auto rest = payload.subspan(part * part_bytes);
    PACELINE_TRY(sink({.type = static_cast<std::uint8_t>(type),
                       .generation = std::uint64_t{part} << 32 | parts,
                       .step = number,
                       .payload = rest.first(std::min(part_bytes, rest.size()))}));
  }
  return {};
}

Status ChangeAssembler::Take(const LogRecord& record) {
  const auto part = static_cast<std::uint32_t>(record.generation >> 32);
  const auto parts = static_cast<std::uint32_t>(record.generation);
  if (part == 0) {
    payload_.clear();
    number_ = record.step;
    type_ = record.type;
    parts_ = parts;
  } else if (part != next_part_ || parts != parts_ || record.step != number_ ||
             record.type != type_) {
    return Status::Error(Code::kBadCheckpoint,
                         fmt::format("part {} of change {} has no beginning", part, record.step));
  }
  payload_.insert(payload_.end(), record.payload.begin(), record.payload.end());
  next_part_ = part + 1;
  if (next_part_ < parts_) return {};
  next_part_ = 0;
  return visit_(static_cast<ChangeType>(type_), payload_);
}

Result<std::unique_ptr<ChangeLog>> ChangeLog::Open(const PushLogOptions& options,
                                                   std::uint64_t first, const ChangeVisitor& replay,
                                                   LogRecovery& recovery, std::size_t part_bytes) {
  std::unique_ptr<ChangeLog> log(new ChangeLog(part_bytes));
  ChangeAssembler assembler(replay);
  PACELINE_ASSIGN(log->log_,
                  PushLog::Open(
                      options, first,
                      [&](const LogRecord& record) { return assembler.Take(record); }, recovery));
  log->last_change_ = assembler.last_number();
  recovery.torn_bytes += assembler.unfinished_bytes();
  return log;
}

Result<std::uint64_t> ChangeLog::Append(ChangeType type, std::span<const std::byte> payload,
                                        const std::shared_ptr<const void>& owner) {
  PACELINE_TRY(CutChange(type, ++last_change_, payload, part_bytes_, [&](const LogRecord& record) {
    PACELINE_ASSIGN(last_record_, log_->Append(record, owner));
    return Status();
  }));
  return last_record_;
}

}  // namespace paceline::ps

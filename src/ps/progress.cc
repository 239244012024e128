#include "ps/progress.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace paceline::ps {

Result<PushLedger::Answer> Progress::Check(const Push& push) const {
  if (!batches_.empty() && push.lease >= batches_.size()) {
    return Status::Error(Code::kProtocol, fmt::format("a push of trainer {}: there are {}",
                                                      push.lease, batches_.size()));
  }
  return ledger_.Check(push.lease, push.batch);
}

void Progress::Applied(const Push& push) {
  version_ = VersionAfter(push);
  ledger_.Applied(push.lease, push.batch, push.last);
  if (batches_.empty()) return;
  batches_[push.lease] = push.batch + 1;
  finished_[push.lease] = push.last ? 1 : 0;
}

std::uint64_t Progress::VersionAfter(const Push& push) const {
  return batches_.empty() ? 0 : VersionWith(push.lease, push.batch + 1, push.last);
}

bool Progress::Explains(const SyncRounds& rounds, bool together) const {
  std::size_t expected = 0;
  for (std::size_t trainer = 0; together && trainer < batches_.size(); ++trainer) {
    const std::uint64_t has = batches_[trainer];
    if (has > version_ && has - version_ > kMostUnacknowledged + 1) return false;
    for (std::uint64_t batch = version_; batch < has; ++batch, ++expected) {
      if (!rounds.Has(batch, trainer)) return false;
    }
  }
  return rounds.pushes() == expected;
}

// Those who have finished hold nobody up; when all have, everything is there.
std::uint64_t Progress::VersionWith(std::uint64_t trainer, std::uint64_t batches,
                                    bool finished) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max(), most = 0;
  bool all_finished = true;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const std::uint64_t has = i == trainer ? batches : batches_[i];
    most = std::max(most, has);
    if (i == trainer ? finished : finished_[i] != 0) continue;
    all_finished = false;
    least = std::min(least, has);
  }
  return all_finished ? most : least;
}

void Progress::Write(wire::ByteWriter& writer) const {
  ledger_.Write(writer);
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    writer.Number(batches_[i]);
    writer.Number(finished_[i]);
  }
  writer.Number(version_);
}

Progress Progress::Read(wire::ByteReader& reader, std::uint64_t trainers) {
  Progress progress(trainers);
  progress.ledger_ = PushLedger::Read(reader);
  for (std::size_t i = 0; i < progress.batches_.size(); ++i) {
    progress.batches_[i] = reader.Number<std::uint64_t>();
    progress.finished_[i] = reader.Number<std::uint8_t>();
    if (progress.finished_[i] > 1) reader.Fail();
  }
  progress.version_ = reader.Number<std::uint64_t>();
  const std::uint64_t version =
      trainers == 0 ? 0 : progress.VersionWith(trainers, 0, false);  // nobody pushes now
  if (progress.version_ != version) reader.Fail();
  return progress;
}

}  // namespace paceline::ps

// A server's snapshot. The input is a list of changes, each type (1 byte), length (4) and payload;
// they get the checksums that the fuzzer cannot guess.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "one_file.h"
#include "ps/change_log.h"
#include "ps/snapshot_reader.h"
#include "wire/endian.h"

namespace {

using paceline::Status;
using namespace paceline::ps;

// Looks at everything and keeps nothing: what a server would keep is as large as the job says.
class Looker final : public SnapshotSink {
 public:
  Status Head(const SnapshotHead& head) override {
    spec_ = head.job.spec;
    return {};
  }
  Status Dense(std::size_t plane, std::uint64_t begin, std::span<const float> floats) override {
    PACELINE_CHECK(plane < DensePlanes(spec_.dense_optimizer.kind), "a plane of the optimiser");
    PACELINE_CHECK(begin + floats.size() <= spec_.DenseFloats(), "floats of the job");
    return {};
  }
  Status Row(std::uint32_t table, const TableRow& row) override {
    PACELINE_CHECK(row.values.size() == spec_.tables.at(table).options.dim, "a row of the table");
    return {};
  }
  Status Waiting(std::span<const std::byte> message) override {
    return DecodePush(message).status();
  }

 private:
  JobSpec spec_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kFields = 5;
  auto left = std::as_bytes(std::span(data, size));
  std::vector<std::byte> file = EncodeSegmentHeader(1);
  for (std::uint64_t number = 1; left.size() >= kFields; ++number) {
    const auto type = static_cast<ChangeType>(left[0]);
    const std::size_t length = paceline::wire::LoadU32(left.data() + 1);
    const auto rest = left.subspan(kFields);
    const auto payload = rest.first(std::min(length, rest.size()));
    const Status status = CutChange(type, number, payload, 1000, [&](const LogRecord& record) {
      EncodeRecord(record, file);
      return Status();
    });
    PACELINE_CHECK(status.ok(), "a few parts");
    left = rest.subspan(payload.size());
  }
  paceline::fuzz::OneFile fs(file);
  Looker looker;
  const Status status = ReadSnapshot(fs, "folder", 1, looker);
  PACELINE_CHECK(status.ok() || status.code() == paceline::Code::kBadCheckpoint, "good or damaged");
  return 0;
}

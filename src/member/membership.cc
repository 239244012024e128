#include "member/membership.h"

#include <fmt/format.h>

#include "wire/bytes.h"

namespace paceline::member {

namespace {
constexpr std::uint32_t kStateVersion = 2;
}

Status MembershipOptions::Validate() const {
  if (min_workers < 1 || min_workers > start_workers || start_workers > max_workers) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("workers {}:{}, beginning with {}: at least one, and in order",
                                     min_workers, max_workers, start_workers));
  }
  if (heartbeat.count() <= 0 || suspect <= heartbeat || dead <= suspect) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("heartbeat {} ms, suspect {} ms, dead {} ms: each must be longer than the one "
                    "before",
                    heartbeat.count(), suspect.count(), dead.count()));
  }
  return {};
}

const char* RunPhaseName(RunPhase phase) {
  switch (phase) {
    case RunPhase::kStarting: return "starting";
    case RunPhase::kRunning: return "running";
    case RunPhase::kChanging: return "changing";
    case RunPhase::kWaiting: return "waiting";
    case RunPhase::kDone: return "done";
  }
  return "unknown";
}

std::string CoordinatorState::Encode() const {
  wire::ByteWriter writer;
  writer.Number(kStateVersion);
  writer.Number(cluster);
  writer.Number(generation.value());
  writer.Number(last_member.value());
  writer.Text(fingerprint);
  writer.Number(static_cast<std::uint32_t>(view.size()));
  for (const Seat& seat : view) {
    writer.Number(seat.member.value());
    writer.Number(seat.incarnation);
    writer.Number(seat.pid);
    seat.at.Write(writer);
  }
  leases.Write(writer);
  const std::vector<std::byte> bytes = writer.Take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<CoordinatorState> CoordinatorState::Decode(std::string_view bytes) {
  wire::ByteReader reader(wire::AsBytes(bytes));
  CoordinatorState state;
  if (const auto version = reader.Number<std::uint32_t>(); version != kStateVersion) {
    return Status::Error(Code::kMismatch,
                         fmt::format("the coordinator's state has version {}, this program reads "
                                     "{}",
                                     version, kStateVersion));
  }
  state.cluster = reader.Number<std::uint64_t>();
  state.generation = Generation(reader.Number<std::uint64_t>());
  state.last_member = MemberId(reader.Number<std::uint64_t>());
  state.fingerprint = reader.Text(0xFFFF);
  const auto count = reader.Number<std::uint32_t>();
  if (count > wire::kMaxWorld) return Status::Error(Code::kBadCheckpoint, "too many members");
  for (std::uint32_t i = 0; i < count; ++i) {
    Seat seat;
    seat.member = MemberId(reader.Number<std::uint64_t>());
    seat.incarnation = reader.Number<std::uint64_t>();
    seat.pid = reader.Number<std::uint64_t>();
    seat.at = wire::Member::Read(reader);
    state.view.push_back(seat);
  }
  state.leases = LeaseLedger::Read(reader);
  if (const Status read = reader.Finish("the coordinator's state"); !read.ok()) {
    return Status::Error(Code::kBadCheckpoint, read.message());
  }
  return state;
}

std::string WorkerName(MemberId id) { return fmt::format("worker {}", id.value()); }

StateSource ChooseStateSource(const wire::Assignment& view) {
  StateSource source{.from_disk = true};
  for (const wire::Assignment::Seat& seat : view.seats) {
    const wire::Progress& best = view.seats[source.root.value()].progress;
    if (!seat.progress.has_state) continue;
    if (source.from_disk || seat.progress.next_step > best.next_step) source.root = seat.at.rank;
    source.from_disk = false;
  }
  if (source.from_disk) return source;
  source.transfer = false;
  for (const wire::Assignment::Seat& seat : view.seats) {
    if (seat.progress != view.seats[source.root.value()].progress) source.transfer = true;
  }
  return source;
}

}  // namespace paceline::member

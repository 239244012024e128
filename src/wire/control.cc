#include "wire/control.h"

#include "wire/bytes.h"

namespace paceline::wire {

namespace {

constexpr std::size_t kMaxReason = 400;
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxFingerprint = 0xFFFF;

void WriteFlag(ByteWriter& writer, bool flag) {
  writer.Number(static_cast<std::uint8_t>(flag ? 1 : 0));
}

bool ReadFlag(ByteReader& reader) {
  const auto value = reader.Number<std::uint8_t>();
  if (value > 1) reader.Fail();
  return value == 1;
}

template <typename T>
T ReadId(ByteReader& reader) {
  return T(reader.Number<std::uint64_t>());
}

void Write(ByteWriter& writer, const Progress& progress) {
  WriteFlag(writer, progress.has_state);
  writer.Number(progress.next_step.value());
}

Progress ReadProgress(ByteReader& reader) {
  Progress progress;
  progress.has_state = ReadFlag(reader);
  progress.next_step = ReadId<Step>(reader);
  return progress;
}

void Write(ByteWriter& writer, const Register& message) {
  writer.Number(message.member.value());
  writer.Number(message.incarnation);
  message.self.Write(writer);
  writer.Number(message.pid);
  writer.Text(message.fingerprint);
  writer.Number(message.generation.value());
  WriteFlag(writer, message.ready);
  WriteFlag(writer, message.stopped);
  Write(writer, message.progress);
  writer.Number(message.samples);
}

void Read(ByteReader& reader, Register& message) {
  message.member = ReadId<MemberId>(reader);
  message.incarnation = reader.Number<std::uint64_t>();
  message.self = Member::Read(reader);
  message.pid = reader.Number<std::uint64_t>();
  message.fingerprint = reader.Text(kMaxFingerprint);
  message.generation = ReadId<Generation>(reader);
  message.ready = ReadFlag(reader);
  message.stopped = ReadFlag(reader);
  message.progress = ReadProgress(reader);
  message.samples = reader.Number<std::uint64_t>();
}

void Write(ByteWriter&, const Ready&) {}
void Read(ByteReader&, Ready&) {}

void Write(ByteWriter& writer, const Heartbeat& message) {
  writer.Number(message.sequence);
  writer.Number(message.next_step.value());
  writer.Text(OneLine(message.phase, kMaxName));
  writer.Number(message.phase_milliseconds);
  writer.Number(message.rss_bytes);
}

void Read(ByteReader& reader, Heartbeat& message) {
  message.sequence = reader.Number<std::uint64_t>();
  message.next_step = ReadId<Step>(reader);
  message.phase = reader.Text(kMaxName);
  message.phase_milliseconds = reader.Number<std::uint64_t>();
  message.rss_bytes = reader.Number<std::uint64_t>();
}

void Write(ByteWriter& writer, const Stopped& message) {
  writer.Number(message.generation.value());
  Write(writer, message.progress);
  writer.Text(message.address);
  writer.Number(message.blamed);
  writer.Text(OneLine(message.why, kMaxReason));
}

void Read(ByteReader& reader, Stopped& message) {
  message.generation = ReadId<Generation>(reader);
  message.progress = ReadProgress(reader);
  message.address = reader.Text(kMaxName);
  message.blamed = reader.Number<std::uint64_t>();
  message.why = reader.Text(kMaxReason);
}

void Write(ByteWriter&, const Leaving&) {}
void Read(ByteReader&, Leaving&) {}

void Write(ByteWriter& writer, const Finished& message) {
  writer.Number(message.next_step.value());
  WriteFlag(writer, message.interrupted);
}

void Read(ByteReader& reader, Finished& message) {
  message.next_step = ReadId<Step>(reader);
  message.interrupted = ReadFlag(reader);
}

void Write(ByteWriter& writer, const Registered& message) {
  writer.Number(message.member.value());
  writer.Number(message.cluster);
  writer.Number(message.heartbeat_milliseconds);
  writer.Number(message.dead_milliseconds);
}

void Read(ByteReader& reader, Registered& message) {
  message.member = ReadId<MemberId>(reader);
  message.cluster = reader.Number<std::uint64_t>();
  message.heartbeat_milliseconds = reader.Number<std::uint64_t>();
  message.dead_milliseconds = reader.Number<std::uint64_t>();
}

void Write(ByteWriter& writer, const HeartbeatAck& message) { writer.Number(message.sequence); }

void Read(ByteReader& reader, HeartbeatAck& message) {
  message.sequence = reader.Number<std::uint64_t>();
}

void Write(ByteWriter& writer, const Pause& message) {
  writer.Number(message.generation.value());
  WriteFlag(writer, message.at_step_end);
  writer.Text(OneLine(message.why, kMaxReason));
}

void Read(ByteReader& reader, Pause& message) {
  message.generation = ReadId<Generation>(reader);
  message.at_step_end = ReadFlag(reader);
  message.why = reader.Text(kMaxReason);
}

void Write(ByteWriter& writer, const Assignment& message) {
  writer.Number(message.cluster);
  writer.Number(message.generation.value());
  writer.Number(static_cast<std::uint32_t>(message.seats.size()));
  for (const Assignment::Seat& seat : message.seats) {
    writer.Number(seat.member.value());
    writer.Number(seat.pid);
    seat.at.Write(writer);
    Write(writer, seat.progress);
  }
  writer.Text(OneLine(message.why, kMaxReason));
}

void Read(ByteReader& reader, Assignment& message) {
  message.cluster = reader.Number<std::uint64_t>();
  message.generation = ReadId<Generation>(reader);
  const auto count = reader.Number<std::uint32_t>();
  if (count > kMaxWorld) return reader.Fail();
  message.seats.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Assignment::Seat& seat = message.seats[i];
    seat.member = ReadId<MemberId>(reader);
    seat.pid = reader.Number<std::uint64_t>();
    seat.at = Member::Read(reader);
    seat.progress = ReadProgress(reader);
    if (seat.at.rank != Rank(i)) reader.Fail();
  }
  message.why = reader.Text(kMaxReason);
}

void Write(ByteWriter& writer, const Release& message) {
  writer.Number(static_cast<std::uint8_t>(message.code));
  WriteFlag(writer, message.save);
  writer.Text(OneLine(message.why, kMaxReason));
}

void Read(ByteReader& reader, Release& message) {
  const auto code = reader.Number<std::uint8_t>();
  if (code > static_cast<std::uint8_t>(Code::kInternal)) reader.Fail();
  message.code = static_cast<Code>(code);
  message.save = ReadFlag(reader);
  message.why = reader.Text(kMaxReason);
}

void Write(ByteWriter&, const LeaseRequest&) {}
void Read(ByteReader&, LeaseRequest&) {}

void Write(ByteWriter& writer, const LeaseProgress& message) {
  writer.Number(message.lease);
  writer.Number(message.done);
}

void Read(ByteReader& reader, LeaseProgress& message) {
  message.lease = reader.Number<std::uint64_t>();
  message.done = reader.Number<std::uint64_t>();
}

void Write(ByteWriter& writer, const LeaseGrant& message) {
  writer.Number(message.lease);
  writer.Number(message.begin);
  writer.Number(message.count);
  writer.Number(message.done);
}

void Read(ByteReader& reader, LeaseGrant& message) {
  message.lease = reader.Number<std::uint64_t>();
  message.begin = reader.Number<std::uint64_t>();
  message.count = reader.Number<std::uint64_t>();
  message.done = reader.Number<std::uint64_t>();
  if (message.done > message.count || message.begin + message.count < message.begin) reader.Fail();
}

// Makes alternative `kind` of the variant, default-constructed; false when there is none.
template <std::size_t I = 0>
bool Emplace(std::size_t kind, Control& message) {
  if constexpr (I < std::variant_size_v<Control>) {
    if (kind != I) return Emplace<I + 1>(kind, message);
    message.emplace<I>();
    return true;
  } else {
    return false;
  }
}

}  // namespace

View Assignment::AsView() const {
  View view{.cluster = cluster, .generation = generation};
  view.members.reserve(seats.size());
  for (const Seat& seat : seats) view.members.push_back(seat.at);
  return view;
}

std::vector<std::byte> EncodeControl(const Control& message) {
  ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& one) { Write(writer, one); }, message);
  return writer.Take();
}

Result<Control> DecodeControl(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Control message;
  if (!Emplace(reader.Number<std::uint8_t>(), message)) reader.Fail();
  std::visit([&](auto& one) { Read(reader, one); }, message);
  PACELINE_TRY(reader.Finish("control message"));
  return message;
}

const char* ControlName(const Control& message) {
  constexpr const char* kNames[] = {"register",       "ready",      "heartbeat",  "stopped",
                                    "leaving",        "finished",   "registered", "heartbeat-ack",
                                    "pause",          "assignment", "release",    "lease-request",
                                    "lease-progress", "lease-grant"};
  static_assert(std::size(kNames) == std::variant_size_v<Control>);
  return kNames[message.index()];
}

}  // namespace paceline::wire

#include "wire/messages.h"

#include <algorithm>

#include "wire/bytes.h"

namespace paceline::wire {

namespace {

constexpr std::size_t kMaxText = 255;
constexpr std::size_t kMaxFailureReason = 400;  // fits into a handshake frame

Role ReadRole(ByteReader& reader) {
  const auto value = reader.Number<std::uint8_t>();
  if (value < static_cast<std::uint8_t>(Role::kWorker) ||
      value > static_cast<std::uint8_t>(Role::kServer)) {
    reader.Fail();
    return Role::kWorker;
  }
  return static_cast<Role>(value);
}

template <typename T>
Result<T> Decoded(const ByteReader& reader, const char* what, T message) {
  PACELINE_TRY(reader.Finish(what));
  return message;
}

}  // namespace

void Member::Write(ByteWriter& writer) const {
  writer.Number(rank.value());
  writer.Text(host);
  writer.Text(address);
  writer.Text(machine);
}

Member Member::Read(ByteReader& reader) {
  Member member;
  member.rank = Rank(reader.Number<std::uint64_t>());
  if (member.rank.value() >= kMaxWorld) reader.Fail();
  member.host = reader.Text(kMaxText);
  member.address = reader.Text(kMaxText);
  member.machine = reader.Text(kMaxText);
  return member;
}

std::string OneLine(std::string text, std::size_t limit) {
  if (text.size() > limit) text.resize(limit);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text;
}

std::vector<std::byte> Hello::Encode() const {
  ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(role));
  writer.Number(rank.value());
  writer.Bytes(nonce);
  return writer.Take();
}

Result<Hello> Hello::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Hello hello;
  hello.role = ReadRole(reader);
  hello.rank = Rank(reader.Number<std::uint64_t>());
  hello.nonce = reader.Array<sizeof(Nonce)>();
  return Decoded(reader, "hello", hello);
}

std::vector<std::byte> Challenge::Encode() const {
  ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(role));
  writer.Number(rank.value());
  writer.Bytes(nonce);
  writer.Bytes(proof);
  return writer.Take();
}

Result<Challenge> Challenge::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Challenge challenge;
  challenge.role = ReadRole(reader);
  challenge.rank = Rank(reader.Number<std::uint64_t>());
  challenge.nonce = reader.Array<sizeof(Nonce)>();
  challenge.proof = reader.Array<sizeof(Digest)>();
  return Decoded(reader, "challenge", challenge);
}

std::vector<std::byte> Proof::Encode() const { return {proof.begin(), proof.end()}; }

Result<Proof> Proof::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  return Decoded(reader, "proof", Proof{reader.Array<sizeof(Digest)>()});
}

std::vector<std::byte> Failure::Encode() const {
  ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(code));
  writer.Number(blamed);
  writer.Text(OneLine(text, kMaxFailureReason));
  return writer.Take();
}

Result<Failure> Failure::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Failure failure;
  const auto code = reader.Number<std::uint8_t>();
  if (code == 0 || code > static_cast<std::uint8_t>(Code::kInternal)) reader.Fail();
  failure.code = static_cast<Code>(code);
  failure.blamed = reader.Number<std::uint64_t>();
  failure.text = reader.Text(kMaxFailureReason);
  return Decoded(reader, "failure", failure);
}

std::vector<std::byte> Join::Encode() const {
  ByteWriter writer;
  member.Write(writer);
  writer.Number(world);
  writer.Text(fingerprint);
  return writer.Take();
}

Result<Join> Join::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Join join;
  join.member = Member::Read(reader);
  join.world = reader.Number<std::uint64_t>();
  join.fingerprint = reader.Text(0xFFFF);
  if (join.world > kMaxWorld) reader.Fail();
  return Decoded(reader, "join", join);
}

std::vector<std::byte> View::Encode() const {
  ByteWriter writer;
  writer.Number(cluster);
  writer.Number(generation.value());
  writer.Number(static_cast<std::uint32_t>(members.size()));
  for (const Member& member : members) member.Write(writer);
  return writer.Take();
}

Result<View> View::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  View view;
  view.cluster = reader.Number<std::uint64_t>();
  view.generation = Generation(reader.Number<std::uint64_t>());
  const auto count = reader.Number<std::uint32_t>();
  if (count > kMaxWorld) return Status::Error(Code::kProtocol, "view: too many members");
  view.members.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    view.members.push_back(Member::Read(reader));
    if (view.members.back().rank != Rank(i)) reader.Fail();
  }
  return Decoded(reader, "view", view);
}

std::vector<std::byte> Local::Encode() const {
  ByteWriter writer;
  writer.Text(socket);
  writer.Bytes(cookie);
  writer.Number(static_cast<std::uint8_t>(shared ? 1 : 0));
  return writer.Take();
}

Result<Local> Local::Decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Local local;
  local.socket = reader.Text(kMaxText);
  local.cookie = reader.Array<sizeof(Nonce)>();
  const auto shared = reader.Number<std::uint8_t>();
  if (shared > 1) reader.Fail();
  local.shared = shared == 1;
  return Decoded(reader, "local", local);
}

}  // namespace paceline::wire

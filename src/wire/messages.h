#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "wire/bytes.h"

// The payloads of frames, except bulk data. Each message encodes itself and is decoded from bytes
// that anybody may have sent: kProtocol for whatever does not fit. docs/wire.md describes them.
namespace paceline::wire {

using Nonce = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;

inline constexpr std::size_t kMaxWorld = 4096;

enum class Role : std::uint8_t { kWorker = 1, kCoordinator = 2, kServer = 3 };

// Opens a connection: who is calling, and a number used once.
struct Hello {
  Role role = Role::kWorker;
  Rank rank;
  Nonce nonce{};

  std::vector<std::byte> Encode() const;
  static Result<Hello> Decode(std::span<const std::byte> bytes);
};

// The answer: who was called, its own number, and a proof that it knows the secret.
struct Challenge {
  Role role = Role::kWorker;
  Rank rank;
  Nonce nonce{};
  Digest proof{};

  std::vector<std::byte> Encode() const;
  static Result<Challenge> Decode(std::span<const std::byte> bytes);
};

// The caller's proof.
struct Proof {
  Digest proof{};

  std::vector<std::byte> Encode() const;
  static Result<Proof> Decode(std::span<const std::byte> bytes);
};

// Why a side gives up, told to the other one (kAbort).
struct Failure {
  Code code = Code::kInternal;
  std::uint64_t blamed = kNobody;  // rank that is the cause
  std::string text;

  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};
  std::vector<std::byte> Encode() const;
  static Result<Failure> Decode(std::span<const std::byte> bytes);
};

// One rank, as the others need to know it.
struct Member {
  Rank rank;
  std::string host;     // name for people
  std::string address;  // numeric address and port on which it listens: "10.0.0.1:4321"
  std::string machine;  // id of the running kernel: a hint for who may share memory

  void Write(ByteWriter& writer) const;
  static Member Read(ByteReader& reader);
  friend bool operator==(const Member&, const Member&) = default;
};

struct Join {
  Member member;
  std::uint64_t world = 0;
  std::string fingerprint;  // of everything that must be equal on all ranks

  std::vector<std::byte> Encode() const;
  static Result<Join> Decode(std::span<const std::byte> bytes);
};

// The group that was agreed on. Its generation is in the frame's header too.
struct View {
  std::uint64_t cluster = 0;
  Generation generation;
  std::vector<Member> members;  // by rank

  std::vector<std::byte> Encode() const;
  static Result<View> Decode(std::span<const std::byte> bytes);
  friend bool operator==(const View&, const View&) = default;
};

// Agreement on shared memory between the ranks of one machine.
struct Local {
  std::string socket;   // abstract Unix socket on which the leader hands out the memory
  Nonce cookie{};       // what the first bytes of that memory must be
  bool shared = false;  // the answer: this rank has mapped it

  std::vector<std::byte> Encode() const;
  static Result<Local> Decode(std::span<const std::byte> bytes);
};

// What people see must be one line; what a peer is sent must fit.
std::string OneLine(std::string text, std::size_t limit);

}  // namespace paceline::wire

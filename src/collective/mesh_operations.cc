#include "collective/mesh_operations.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "net/connection.h"
#include "wire/frame.h"

namespace paceline::collective {

namespace {

constexpr std::size_t kPiece = std::size_t{512} << 10;

// The messages of one operation. On failure it fails the mesh and waits until every message has
// let go of its memory.
class Flight {
 public:
  Flight(net::Mesh& mesh, const MeshCall& call) : mesh_(mesh), call_(call) {}

  void Send(Rank to, std::size_t index, std::span<const std::byte> bytes) {
    net::Completion& done = Add(sends_, to);
    mesh_.to(to).Send(wire::FrameType::kData, Tag(index), bytes, done.ForSend());
  }

  void Receive(Rank from, std::size_t index, std::span<std::byte> bytes) {
    net::Completion& done = Add(receives_, from);
    mesh_.to(from).Receive({.tag = Tag(index)}, bytes, done.ForReceive());
  }

  // The receive that was started first.
  Status AwaitOne() {
    auto& [rank, completion] = receives_.front();
    Status status = Check(rank, completion);
    if (status.ok()) receives_.pop_front();
    return status;
  }

  Status AwaitAll() {
    while (!receives_.empty()) PACELINE_TRY(AwaitOne());
    for (auto& [rank, completion] : sends_) PACELINE_TRY(Check(rank, completion));
    return {};
  }

  Status Finish(const Status& status) {
    if (status.ok()) return status;
    mesh_.Abort({.code = status.code(),
                 .blamed = late_.value_or(wire::Failure::kNobody),
                 .text = status.message()});
    for (auto* list : {&sends_, &receives_}) {
      for (auto& [rank, completion] : *list) completion.WaitWithoutDeadline();
    }
    return status;
  }

 private:
  using List = std::deque<std::pair<Rank, net::Completion>>;

  static net::Completion& Add(List& list, Rank rank) {
    list.emplace_back(std::piecewise_construct, std::forward_as_tuple(rank),
                      std::forward_as_tuple());
    return list.back().second;
  }

  std::uint64_t Tag(std::size_t index) const { return call_.operation << 40 | index; }

  Status Check(Rank rank, net::Completion& completion) {
    Status status = completion.Wait(call_.deadline);
    if (status.code() != Code::kTimeout) return status;
    late_ = rank.value();
    return Status::Error(Code::kTimeout, fmt::format("rank {} took too long", rank.value()));
  }

  net::Mesh& mesh_;
  MeshCall call_;
  List sends_, receives_;
  std::optional<std::uint64_t> late_;
};

Status Chain(net::Mesh& mesh, Flight& flight, std::span<std::byte> bytes, Rank root) {
  const std::uint64_t world = mesh.world(), self = mesh.self().value();
  const std::uint64_t place = (self + world - root.value()) % world;
  const Rank before((self + world - 1) % world), after((self + 1) % world);
  const std::size_t pieces = (bytes.size() + kPiece - 1) / kPiece;
  const auto piece = [&](std::size_t i) {
    return bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece));
  };
  for (std::size_t i = 0; i < pieces && place > 0; ++i) flight.Receive(before, i, piece(i));
  for (std::size_t i = 0; i < pieces; ++i) {
    if (place > 0) PACELINE_TRY(flight.AwaitOne());
    if (place + 1 < world) flight.Send(after, i, piece(i));
  }
  return flight.AwaitAll();
}

}  // namespace

Status MeshAllGather(net::Mesh& mesh, std::span<std::byte> blocks, const MeshCall& call) {
  const std::size_t size = blocks.size() / mesh.world();
  const std::uint64_t self = mesh.self().value();
  const std::size_t limit = wire::MaxPayload(wire::FrameType::kData);
  Flight flight(mesh, call);
  for (std::uint64_t i = 1; i < mesh.world(); ++i) {
    const std::uint64_t rank = (self + i) % mesh.world();
    for (std::size_t at = 0, index = 0; at < size; at += limit, ++index) {
      const std::size_t piece = std::min(limit, size - at);
      flight.Receive(Rank(rank), index, blocks.subspan(rank * size + at, piece));
      flight.Send(Rank(rank), index, blocks.subspan(self * size + at, piece));
    }
  }
  return flight.Finish(flight.AwaitAll());
}

Status MeshBroadcast(net::Mesh& mesh, std::span<std::byte> bytes, Rank root, const MeshCall& call) {
  Flight flight(mesh, call);
  return flight.Finish(Chain(mesh, flight, bytes, root));
}

std::vector<Engine::Link> MeshLinks(net::Mesh& mesh) {
  std::vector<Engine::Link> links;
  for (std::uint64_t rank = 0; rank < mesh.world(); ++rank) {
    if (Rank(rank) == mesh.self()) continue;
    const net::StreamUse use = mesh.to(Rank(rank)).use();
    if (use.bytes > 0) links.push_back({Rank(rank), use.busy_seconds, use.bytes});
  }
  return links;
}

Status MeshBarrier(net::Mesh& mesh, const MeshCall& call) {
  Flight flight(mesh, call);
  for (std::uint64_t rank = 0; rank < mesh.world(); ++rank) {
    if (Rank(rank) == mesh.self()) continue;
    flight.Receive(Rank(rank), 0, {});
    flight.Send(Rank(rank), 0, {});
  }
  return flight.Finish(flight.AwaitAll());
}

}  // namespace paceline::collective

#include "collective/host_discovery.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "net/secret.h"
#include "wire/bytes.h"
#include "wire/messages.h"

namespace paceline::collective {

using Deadline = std::chrono::steady_clock::time_point;
using wire::FrameType;

namespace {

constexpr std::size_t kProbeBytes = 4096;
constexpr std::chrono::milliseconds kFetchTimeout(2000);
// Turns of the waiting loop, about 100 microseconds. Longer than it takes to wake a sleeping rank
// (40 us measured), or ranks in a tight loop would go on putting each other to sleep; shorter than
// anything that computing threads would notice.
constexpr int kSpins = 5000;

// Of the machine, not of this process: the ranks are usually pinned, each to its own.
long Cpus() { return ::sysconf(_SC_NPROCESSORS_ONLN); }

void WriteCookie(const net::SharedMemory& memory, const wire::Nonce& cookie) {
  std::copy(cookie.begin(), cookie.end(), memory.bytes().begin());
}

Result<net::SharedMemory> Fetch(const wire::Local& offer, std::size_t bytes) {
  PACELINE_ASSIGN(UniqueFd fd, net::FetchFd(offer.socket, kFetchTimeout));
  PACELINE_ASSIGN(net::SharedMemory memory, net::SharedMemory::Map(std::move(fd), bytes));
  if (!std::equal(offer.cookie.begin(), offer.cookie.end(), memory.bytes().begin())) {
    return Status::Error(Code::kProtocol, "the shared memory belongs to somebody else");
  }
  return memory;
}

// One conversation between the ranks of a candidate set. Messages between two ranks alternate, so
// a plain tag is enough.
class Discovery {
 public:
  Discovery(net::Mesh& mesh, const HostOptions& options) : mesh_(mesh), options_(options) {}

  // Splits the candidates until this rank's group is known; the memory if it is not alone.
  struct Group {
    std::vector<Rank> ranks;
    std::optional<net::SharedMemory> memory;
    std::size_t memory_bytes = 0;
  };
  Result<Group> Find(std::vector<Rank> candidates) {
    for (;;) {
      if (candidates.size() <= 1) return Group{{mesh_.self()}, std::nullopt};
      PACELINE_ASSIGN(const Shared probe, Share(candidates, kProbeBytes));
      const bool mine = Contains(probe.ranks, mesh_.self());
      if (mine && probe.ranks.size() == 1) return Group{probe.ranks, std::nullopt};
      if (mine) {
        const std::size_t bytes = LocalGroup::MemoryBytes(GroupOptions(probe.ranks, mesh_.self()));
        PACELINE_ASSIGN(Shared real, Share(probe.ranks, bytes));
        if (real.ranks != probe.ranks || !real.memory) {
          return Status::Error(Code::kUnavailable, "shared memory worked, then did not");
        }
        return Group{std::move(real.ranks), std::move(real.memory), bytes};
      }
      std::erase_if(candidates, [&](Rank rank) { return Contains(probe.ranks, rank); });
    }
  }

  LocalGroup::Options GroupOptions(const std::vector<Rank>& ranks, Rank self) const {
    LocalGroup::Options group{.region_bytes = options_.region_bytes,
                              .common_bytes = options_.common_bytes};
    for (const Rank rank : ranks) {
      if (rank == self) group.index = group.ranks.size();
      group.ranks.push_back(rank.value());
    }
    return group;
  }

 private:
  struct Shared {
    std::vector<Rank> ranks;  // that have mapped the memory, the leader among them
    std::optional<net::SharedMemory> memory;
  };

  static bool Contains(const std::vector<Rank>& ranks, Rank rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }

  Result<Shared> Share(const std::vector<Rank>& candidates, std::size_t bytes) {
    return candidates.front() == mesh_.self() ? Lead(candidates, bytes)
                                              : Follow(candidates.front(), bytes);
  }

  Status Send(Rank to, const wire::Local& message) {
    return SendMessage(mesh_.to(to), FrameType::kLocal, 0, message.Encode(), options_.deadline);
  }

  Result<wire::Local> Receive(Rank from) {
    PACELINE_ASSIGN(const std::vector<std::byte> bytes,
                    ReceiveMessage(mesh_.to(from), FrameType::kLocal, 0, options_.deadline));
    return wire::Local::Decode(bytes);
  }

  Result<Shared> Lead(const std::vector<Rank>& candidates, std::size_t bytes) {
    PACELINE_ASSIGN(net::SharedMemory memory, net::SharedMemory::Create(bytes));
    PACELINE_ASSIGN(const wire::Nonce cookie, net::MakeNonce());
    WriteCookie(memory, cookie);
    PACELINE_ASSIGN(const auto server, net::FdServer::Start(memory.fd()));
    const std::span<const Rank> others = std::span(candidates).subspan(1);
    for (const Rank rank : others) {
      PACELINE_TRY(Send(rank, {.socket = server->name(), .cookie = cookie}));
    }
    Shared shared{{mesh_.self()}, std::move(memory)};
    wire::ByteWriter verdict;
    verdict.Number(mesh_.self().value());
    for (const Rank rank : others) {
      PACELINE_ASSIGN(const wire::Local reply, Receive(rank));
      if (!reply.shared) continue;
      shared.ranks.push_back(rank);
      verdict.Number(rank.value());
    }
    const std::vector<std::byte> list = verdict.Take();
    for (const Rank rank : others) {
      PACELINE_TRY(SendMessage(mesh_.to(rank), FrameType::kLocal, 1, list, options_.deadline));
    }
    return shared;
  }

  Result<Shared> Follow(Rank leader, std::size_t bytes) {
    PACELINE_ASSIGN(const wire::Local offer, Receive(leader));
    auto memory = Fetch(offer, bytes);
    if (!memory.ok())
      PACELINE_VLOG(1, "no shared memory with rank {}: {}", leader.value(),
                    memory.status().message());
    PACELINE_TRY(Send(leader, {.shared = memory.ok()}));
    PACELINE_ASSIGN(const std::vector<std::byte> list,
                    ReceiveMessage(mesh_.to(leader), FrameType::kLocal, 1, options_.deadline));
    Shared shared;
    wire::ByteReader reader(list);
    while (reader.left() >= sizeof(std::uint64_t)) {
      shared.ranks.emplace_back(reader.Number<std::uint64_t>());
    }
    PACELINE_TRY(reader.Finish("local verdict"));
    if (memory.ok()) shared.memory = std::move(*memory);
    return shared;
  }

  net::Mesh& mesh_;
  HostOptions options_;
};

// Everybody tells everybody the first rank of its host.
Result<std::vector<std::vector<Rank>>> ExchangeGroups(net::Mesh& mesh, Rank leader,
                                                      Deadline deadline) {
  wire::ByteWriter writer;
  writer.Number(leader.value());
  const std::vector<std::byte> mine = writer.Take();
  for (std::uint64_t rank = 0; rank < mesh.world(); ++rank) {
    if (Rank(rank) == mesh.self()) continue;
    PACELINE_TRY(SendMessage(mesh.to(Rank(rank)), FrameType::kLocal, 2, mine, deadline));
  }
  std::map<std::uint64_t, std::vector<Rank>> groups;
  for (std::uint64_t rank = 0; rank < mesh.world(); ++rank) {
    std::uint64_t first = leader.value();
    if (Rank(rank) != mesh.self()) {
      PACELINE_ASSIGN(const std::vector<std::byte> bytes,
                      ReceiveMessage(mesh.to(Rank(rank)), FrameType::kLocal, 2, deadline));
      wire::ByteReader reader(bytes);
      first = reader.Number<std::uint64_t>();
      PACELINE_TRY(reader.Finish("host"));
    }
    groups[first].push_back(Rank(rank));
  }
  std::vector<std::vector<Rank>> list;
  list.reserve(groups.size());
  for (auto& [first, ranks] : groups) {
    if (ranks.front() != Rank(first)) {
      return Status::Error(Code::kProtocol, "the ranks do not agree on who shares a host");
    }
    list.push_back(std::move(ranks));
  }
  return list;
}

}  // namespace

Result<std::vector<std::byte>> ReceiveMessage(net::Connection& from, FrameType type,
                                              std::uint64_t tag, Deadline deadline) {
  std::vector<std::byte> buffer(std::size_t{64} << 10);
  net::Completion done;
  from.Receive({.type = type, .tag = tag, .exact = false}, buffer, done.ForReceive());
  const Status status = done.Wait(deadline);
  if (status.code() == Code::kTimeout) {
    from.Abort({.code = Code::kTimeout, .text = "setting up took too long"});
    done.WaitWithoutDeadline();
  }
  if (!status.ok()) return status;
  buffer.resize(done.bytes());
  return buffer;
}

Status SendMessage(net::Connection& to, FrameType type, std::uint64_t tag,
                   std::span<const std::byte> payload, Deadline deadline) {
  net::Completion done;
  to.Send(type, tag, payload, done.ForSend());
  Status status = done.Wait(deadline);
  if (status.code() == Code::kTimeout) {
    to.Abort({.code = Code::kTimeout, .text = "setting up took too long"});
    done.WaitWithoutDeadline();
  }
  return status;
}

Result<Hosts> DiscoverHosts(net::Mesh& mesh, const HostOptions& options) {
  const std::vector<wire::Member>& members = mesh.view().members;
  const std::string& machine = members[mesh.self().value()].machine;
  std::vector<Rank> candidates;
  for (const wire::Member& member : members) {
    const bool same = options.shared_memory && !machine.empty() && member.machine == machine;
    if (same || member.rank == mesh.self()) candidates.push_back(member.rank);
  }
  Discovery discovery(mesh, options);
  PACELINE_ASSIGN(Discovery::Group group, discovery.Find(std::move(candidates)));
  Hosts hosts;
  PACELINE_ASSIGN(hosts.groups, ExchangeGroups(mesh, group.ranks.front(), options.deadline));
  const auto mine = std::find_if(hosts.groups.begin(), hosts.groups.end(), [&](const auto& ranks) {
    return ranks.front() == group.ranks.front();
  });
  hosts.mine = static_cast<std::size_t>(mine - hosts.groups.begin());
  if (!group.memory) return hosts;
  LocalGroup::Options local = discovery.GroupOptions(group.ranks, mesh.self());
  const bool room = static_cast<long>(group.ranks.size()) <= Cpus();
  local.spins = room ? kSpins : 0;
  hosts.local = std::make_unique<LocalGroup>(std::move(*group.memory), local);
  return hosts;
}

}  // namespace paceline::collective

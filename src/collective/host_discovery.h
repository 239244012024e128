#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "collective/local_group.h"
#include "net/mesh.h"

namespace paceline::collective {

// Which ranks share memory. Each list is one host, by rank; the lists are ordered by first rank.
struct Hosts {
  std::vector<std::vector<Rank>> groups;
  std::size_t mine = 0;               // group of this rank
  std::unique_ptr<LocalGroup> local;  // null when this rank is alone
};

struct HostOptions {
  bool shared_memory = true;
  std::size_t region_bytes = 0;  // for each rank
  std::size_t common_bytes = 0;  // for all ranks of a host together
  std::chrono::steady_clock::time_point deadline;
};

// Finds the ranks with which this one can share memory, by sharing some: one rank makes memory and
// hands it out over a Unix socket, and whoever has mapped it and found the cookie in it is on the
// same host. Names and addresses decide nothing, so that neither equal names of two machines nor
// different names of two containers mislead; the kernel's id only says whom to ask. A network
// namespace of its own counts as a host of its own. Every rank of the mesh calls it.
Result<Hosts> DiscoverHosts(net::Mesh& mesh, const HostOptions& options);

// Waits for a message from a rank; sends one. For setting up, not for speed.
Result<std::vector<std::byte>> ReceiveMessage(net::Connection& from, wire::FrameType type,
                                              std::uint64_t tag,
                                              std::chrono::steady_clock::time_point deadline);
Status SendMessage(net::Connection& to, wire::FrameType type, std::uint64_t tag,
                   std::span<const std::byte> payload,
                   std::chrono::steady_clock::time_point deadline);

}  // namespace paceline::collective

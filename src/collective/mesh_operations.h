#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "collective/engine.h"
#include "net/mesh.h"

// Operations over the mesh alone, without arithmetic. `operation` numbers the call, as in
// NetworkReduce. After an error the mesh has failed and nothing touches the caller's memory.
namespace paceline::collective {

struct MeshCall {
  std::uint64_t operation = 0;
  std::chrono::steady_clock::time_point deadline;
};

// Each rank sends its block to every other: one exchange, (N-1) blocks sent by each.
Status MeshAllGather(net::Mesh& mesh, std::span<std::byte> blocks, const MeshCall& call);

// Along the chain root, root+1, ..., in pieces: each rank but the last sends every byte once.
Status MeshBroadcast(net::Mesh& mesh, std::span<std::byte> bytes, Rank root, const MeshCall& call);

// What is known of the connections to the others: Engine::Links().
std::vector<Engine::Link> MeshLinks(net::Mesh& mesh);

// An empty frame from each to each.
Status MeshBarrier(net::Mesh& mesh, const MeshCall& call);

}  // namespace paceline::collective

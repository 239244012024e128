#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "algo/schedule.h"
#include "base/status.h"
#include "collective/engine.h"
#include "net/mesh.h"

namespace paceline::collective {

struct NativeOptions {
  algo::ShardLayout layout = algo::ShardLayout::Even(1, 1);
  std::chrono::milliseconds timeout{300'000};  // of one operation
  std::chrono::milliseconds setup_timeout{30'000};
  bool shared_memory = true;
  // Shared memory that Allocate() can hand out on each rank. Costs address space until it is used.
  std::size_t arena_bytes = std::size_t{256} << 20;
  std::size_t common_bytes = 0;  // likewise for AllocateCommon(), once for all ranks of a host
  std::size_t segment_bytes = std::size_t{256} << 10;  // that a host sends at a time
  algo::NetworkSpeed speed;
};

// Our own engine. Ranks of one host add through shared memory, each a slice, at memory speed; hosts
// exchange what is left over the mesh. The order of additions is the fixed tree over shards, so
// the bits of a sum do not depend on the number of ranks, on who shares a host, or on how data is
// cut into calls. A rank that dies cancels what is in flight on all others within milliseconds.
// Borrows the mesh, which must outlive it. A collective call.
Result<std::unique_ptr<Engine>> MakeNativeEngine(net::Mesh& mesh, const NativeOptions& options);

// "engine native, 4 ranks on 2 hosts, shared memory within a host", for people.
std::string DescribeNative(const Engine& native);

// What AllReduce of `count` floats makes this rank send over the network, headers included.
Traffic PredictAllReduceTraffic(const Engine& native, std::size_t count);

}  // namespace paceline::collective

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective/native_engine.h"
#include "net/acceptor.h"
#include "net/loop.h"
#include "net/mesh.h"

namespace paceline::collective {

// One rank of a group inside this process, with everything that a process has.
struct NativeRank {
  net::Loop loop;
  std::unique_ptr<net::Acceptor> acceptor;
  std::unique_ptr<net::Mesh> mesh;
  std::unique_ptr<Engine> engine;
};

// Which ranks may share memory: `machines[r]` names the machine of rank r; an empty list means
// that all are on one.
struct NativeGroupOptions {
  std::uint64_t world = 1;
  std::vector<std::string> machines;
  NativeOptions engine;
};

// Builds all ranks at the same time. Reports failures to gtest and returns an empty list then.
std::vector<std::unique_ptr<NativeRank>> MakeNativeGroup(const NativeGroupOptions& options);

}  // namespace paceline::collective

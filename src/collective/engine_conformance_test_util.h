#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "collective/engine.h"

// What every engine must do, as one parameterised suite. To add an engine: derive from
// EngineFactory (for ranks that are threads, call RunInThreads) and instantiate, e.g.
//   INSTANTIATE_TEST_SUITE_P(Gloo, EngineConformance, ValuesIn(EngineCases("gloo", MakeFactory)),
//                            EngineCaseName);
namespace paceline::collective {

struct GroupOptions {
  std::uint64_t shards_per_rank = 1;
  std::uint64_t extra_shards = 0;  // less than the world: some ranks own one more
  std::chrono::milliseconds timeout{20'000};
};

// What an engine can do beyond the common part; the tests of the rest report "skipped".
struct EngineTraits {
  bool ranks_share_memory = true;  // ranks are threads of one process
  bool aborts_in_flight = true;    // Abort() ends a call that waits, and the peers notice
  bool has_deadline = true;
  bool detects_size_mismatch = false;
};

// Makes groups of one world. Thread-compatible.
class EngineFactory {
 public:
  virtual ~EngineFactory() = default;
  virtual EngineTraits traits() const = 0;
  // Makes an engine for every rank and runs `body` on each at the same time; where ranks are
  // processes, on the one of this process. No body starts before all engines are made, and no
  // engine dies before all bodies have returned.
  virtual void RunRanks(const GroupOptions& options, const std::function<void(Engine&)>& body) = 0;
};

struct EngineCase {
  std::string engine;
  std::uint64_t world = 0;  // 0: given by the launcher
  std::function<std::unique_ptr<EngineFactory>(std::uint64_t world)> make;
};
std::ostream& operator<<(std::ostream& out, const EngineCase& engine_case);

// Worlds of 1 to 4 ranks.
std::vector<EngineCase> EngineCases(const EngineCase& base);
std::string EngineCaseName(const ::testing::TestParamInfo<EngineCase>& info);

class EngineConformance : public ::testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override;
  EngineFactory& factory() { return *factory_; }
  void RunRanks(const GroupOptions& options, const std::function<void(Engine&)>& body) {
    factory_->RunRanks(options, body);
  }

 private:
  std::unique_ptr<EngineFactory> factory_;
};

// An all-gather of blobs among threads. Thread-safe.
class BlobMeeting {
 public:
  explicit BlobMeeting(std::uint64_t world) : blobs_(world), missing_(world) {}
  // kTimeout when not all ranks arrive.
  Result<std::vector<std::string>> Exchange(Rank rank, const std::string& mine);

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::string> blobs_ PACELINE_GUARDED_BY(mutex_);
  std::uint64_t missing_ PACELINE_GUARDED_BY(mutex_);
};

using MakeRank = std::function<Result<std::unique_ptr<Engine>>(Rank rank)>;
// RunRanks() with one thread per rank.
void RunInThreads(std::uint64_t world, const MakeRank& make,
                  const std::function<void(Engine&)>& body);

}  // namespace paceline::collective

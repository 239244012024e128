#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "collective/idle_cores.h"
#include "net/shared_memory.h"

namespace paceline::collective {

// What one rank of a host brings to an operation, told to the others through the shared memory.
struct LocalOperation {
  static constexpr std::size_t kMaxParts = 128;
  enum class Kind : std::uint64_t { kNone, kReduce, kGather, kBroadcast, kBarrier };

  Kind kind = Kind::kNone;
  std::uint64_t count = 0;             // of elements; the same on every rank
  std::vector<std::uint64_t> offsets;  // of its parts, in bytes from the start of the memory
};

// The ranks of one host around one piece of shared memory: a region for each, and barriers that
// spin briefly, then sleep in the kernel. A rank that goes to sleep offers its core to one of those
// that it waits for. Each process has its own object for the same memory. Thread-compatible, except
// for Abort(), which is thread-safe, and what a thread of its own does with IdleCores.
class LocalGroup : public IdleCores {
 public:
  struct Options {
    std::vector<std::uint64_t> ranks;  // of this host, for messages
    std::size_t index = 0;             // of this one among them
    std::size_t region_bytes = 0;
    std::size_t common_bytes = 0;  // once, for all ranks
    // Turns of the waiting loop before a rank sleeps; 0 when there are more ranks than cores.
    int spins = 0;

    std::size_t size() const { return ranks.size(); }
  };
  static std::size_t MemoryBytes(const Options& options);

  LocalGroup(net::SharedMemory memory, const Options& options);
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  std::size_t size() const { return options_.size(); }
  std::size_t index() const { return options_.index; }

  // Offset of a rank's region, a multiple of 4096.
  std::uint64_t RegionOffset(std::size_t index) const;
  std::size_t region_bytes() const { return options_.region_bytes; }
  // What belongs to no rank: behind all regions.
  std::uint64_t CommonOffset() const { return RegionOffset(options_.size()); }
  std::size_t common_bytes() const { return options_.common_bytes; }
  std::byte* At(std::uint64_t offset) const { return memory_.bytes().data() + offset; }
  // The offset of memory inside this group's memory, or nothing.
  std::optional<std::uint64_t> OffsetOf(const void* memory, std::size_t bytes) const;

  // Publishes this rank's part of the next operation. Visible to the others after the barrier.
  void Publish(const LocalOperation& operation);
  // What a rank published before the last barrier. kProtocol unless kind and count are `mine` and
  // every part lies inside the memory.
  Result<LocalOperation> Read(std::size_t index, const LocalOperation& mine,
                              std::size_t element_bytes) const;

  // Waits for every rank of the host. kTimeout lists the ranks that are missing.
  Status Barrier(std::chrono::steady_clock::time_point deadline);

  // Makes Barrier() return `why`, now and later.
  void Abort(const Status& why);

  // Whether every rank has a core of its own: only then a rank that sleeps leaves one idle.
  bool OffersCores() const { return options_.spins > 0; }
  bool Await() override;
  bool Idle() const override;
  std::vector<int> CpusOfOthers() const override;
  void End() override;

 private:
  struct Control;
  Control& ControlOf(std::size_t index) const;
  bool AllArrived(std::uint64_t turn) const;
  Status Sleep(std::uint64_t turn, std::chrono::steady_clock::time_point deadline);
  Status Missing(std::uint64_t turn) const;
  void Wake(std::size_t index) const;
  void OfferCore(std::uint64_t turn) const;
  Status AbortStatus() const;

  net::SharedMemory memory_;
  Options options_;
  std::uint64_t turn_ = 0;       // barriers passed
  std::uint64_t published_ = 0;  // operations published
  std::shared_ptr<const Status> aborted_storage_;
  std::atomic<const Status*> aborted_{nullptr};
  std::uint32_t offers_seen_ = 0;  // by Await()
  std::atomic<bool> ended_{false};
};

}  // namespace paceline::collective

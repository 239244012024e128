#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "net/shared_memory.h"
#include "ps/memory_offer.h"

namespace paceline::ps {

// A counter that is odd while the floats behind it are changed: whoever reads them and finds the
// same even number before and after has seen no half of a change ("seqlock").
using ChangeCounter = std::atomic<std::uint64_t>;
// What no reader can find twice.
inline constexpr std::uint64_t kBeingChanged = 1;

// Floats that one process changes and others of its host may read, in sealed memory that they
// cannot write. Private memory when they are few, or when none can be shared. Changes and changes()
// are the caller's to serialise; Offer() is thread-safe.
class SharedFloats {
 public:
  explicit SharedFloats(std::size_t count);

  std::span<float> floats() { return floats_; }
  std::span<const float> floats() const { return floats_; }
  std::uint64_t changes() const { return counter_->load(std::memory_order_relaxed); }

  // While there is one, the floats may be changed.
  class Change {
   public:
    explicit Change(SharedFloats& floats);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    ChangeCounter& counter_;
  };

  // Where readers find them. kUnavailable when they cannot.
  Result<MemoryOffer> Offer();

 private:
  std::optional<net::SharedMemory> memory_;
  std::vector<float> own_;
  ChangeCounter own_counter_{0};
  std::span<float> floats_;
  ChangeCounter* counter_ = &own_counter_;

  Mutex mutex_;
  std::unique_ptr<net::FdServer> server_ PACELINE_GUARDED_BY(mutex_);
};

// The same floats in another process. Immutable.
class FloatsReader {
 public:
  static Result<FloatsReader> Map(const MemoryOffer& offer);

  std::size_t size() const { return floats_.size(); }
  // Copies to `out` from float `begin` on. Whoever has read all that it wanted asks IsStill() then.
  void Read(std::size_t begin, std::span<float> out) const;
  // Whether nothing has changed since the owner has counted `changes`.
  bool IsStill(std::uint64_t changes) const;

 private:
  explicit FloatsReader(net::SharedMemory memory);

  net::SharedMemory memory_;
  std::span<const float> floats_;
  const ChangeCounter* counter_;
};

}  // namespace paceline::ps

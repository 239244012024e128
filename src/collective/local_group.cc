#include "collective/local_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::collective {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;

std::size_t RoundUp(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The words lie in memory that several processes share, hence no private futex.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
               std::optional<std::chrono::nanoseconds> timeout) {
  timespec limit{};
  if (timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*timeout);
    limit = {seconds.count(), (*timeout - seconds).count()};
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, timeout ? &limit : nullptr, nullptr, 0);
}

void FutexWake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

constexpr std::size_t kCpuWords = CPU_SETSIZE / 64;

}  // namespace

// One rank's page or two: what it tells the others. Zero-filled memory is its initial state.
struct LocalGroup::Control {
  struct Published {
    std::uint64_t kind = 0;
    std::uint64_t count = 0;
    std::uint64_t parts = 0;
    std::array<std::uint64_t, LocalOperation::kMaxParts> offsets{};
  };
  alignas(kLine) std::atomic<std::uint64_t> arrived{0};   // barriers reached
  alignas(kLine) std::atomic<std::uint32_t> doorbell{0};  // changes to wake this rank
  std::atomic<std::uint32_t> sleeping{0};
  alignas(kLine) std::atomic<std::uint32_t> offers{0};  // of cores to this rank
  std::atomic<std::uint32_t> wants_offers{0};
  std::array<std::atomic<std::uint64_t>, kCpuWords> cpus{};  // of this rank, a bit each
  // Two: a fast rank publishes its next operation while a slow one still reads this one. It cannot
  // get further ahead, since every operation has a barrier.
  alignas(kLine) std::array<Published, 2> published;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

LocalGroup::LocalGroup(net::SharedMemory memory, const Options& options)
    : memory_(std::move(memory)), options_(options) {
  PACELINE_CHECK(memory_.bytes().size() == MemoryBytes(options), "memory made for this group");
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus) == 0) continue;
    ControlOf(options_.index).cpus[static_cast<std::size_t>(cpu) / 64] |= std::uint64_t{1}
                                                                          << (cpu % 64);
  }
}

std::size_t LocalGroup::MemoryBytes(const Options& options) {
  return kPage + options.size() * (RoundUp(sizeof(Control)) + RoundUp(options.region_bytes)) +
         RoundUp(options.common_bytes);
}

LocalGroup::Control& LocalGroup::ControlOf(std::size_t index) const {
  return *std::launder(reinterpret_cast<Control*>(At(kPage + index * RoundUp(sizeof(Control)))));
}

std::uint64_t LocalGroup::RegionOffset(std::size_t index) const {
  return kPage + options_.size() * RoundUp(sizeof(Control)) +
         index * RoundUp(options_.region_bytes);
}

std::optional<std::uint64_t> LocalGroup::OffsetOf(const void* memory, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(memory);
  const std::byte* begin = memory_.bytes().data();
  const std::less<> before;
  if (before(at, begin) || before(begin + memory_.bytes().size(), at)) return std::nullopt;
  const auto offset = static_cast<std::size_t>(at - begin);
  if (bytes > memory_.bytes().size() - offset) return std::nullopt;
  return offset;
}

void LocalGroup::Publish(const LocalOperation& operation) {
  PACELINE_CHECK(operation.offsets.size() <= LocalOperation::kMaxParts, "few parts");
  Control::Published& slot = ControlOf(options_.index).published[published_++ % 2];
  slot.kind = static_cast<std::uint64_t>(operation.kind);
  slot.count = operation.count;
  slot.parts = operation.offsets.size();
  std::copy(operation.offsets.begin(), operation.offsets.end(), slot.offsets.begin());
}

// Another process wrote this: each number is read once and checked.
Result<LocalOperation> LocalGroup::Read(std::size_t index, const LocalOperation& mine,
                                        std::size_t element_bytes) const {
  const Control::Published& slot = ControlOf(index).published[(published_ - 1) % 2];
  LocalOperation operation{static_cast<LocalOperation::Kind>(slot.kind), slot.count, {}};
  const std::uint64_t parts = slot.parts;
  if (operation.kind != mine.kind || operation.count != mine.count ||
      parts > LocalOperation::kMaxParts) {
    return Status::Error(
        Code::kProtocol,
        fmt::format("rank {} does operation {} on {} elements, this rank {} on {}: the ranks "
                    "do different things",
                    options_.ranks[index], slot.kind, operation.count,
                    static_cast<std::uint64_t>(mine.kind), mine.count));
  }
  operation.offsets.assign(slot.offsets.begin(), slot.offsets.begin() + parts);
  const std::size_t bytes = memory_.bytes().size();
  for (const std::uint64_t offset : operation.offsets) {
    if (offset > bytes || operation.count > (bytes - offset) / element_bytes) {
      return Status::Error(Code::kProtocol, fmt::format("rank {} points outside the shared memory",
                                                        options_.ranks[index]));
    }
  }
  return operation;
}

bool LocalGroup::AllArrived(std::uint64_t turn) const {
  for (std::size_t i = 0; i < options_.size(); ++i) {
    if (ControlOf(i).arrived.load(std::memory_order_seq_cst) < turn) return false;
  }
  return true;
}

void LocalGroup::Wake(std::size_t index) const {
  Control& control = ControlOf(index);
  control.doorbell.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(control.doorbell);
}

Status LocalGroup::AbortStatus() const {
  const Status* why = aborted_.load(std::memory_order_acquire);
  return why == nullptr ? Status() : *why;
}

Status LocalGroup::Barrier(std::chrono::steady_clock::time_point deadline) {
  const std::uint64_t turn = ++turn_;
  ControlOf(options_.index).arrived.store(turn, std::memory_order_seq_cst);
  for (std::size_t i = 0; i < options_.size(); ++i) {
    if (i != options_.index && ControlOf(i).sleeping.load(std::memory_order_seq_cst) != 0) Wake(i);
  }
  for (int spin = 0; spin <= options_.spins; ++spin) {
    if (AllArrived(turn)) return AbortStatus();
    Pause();
  }
  return Sleep(turn, deadline);
}

// Announces that it sleeps before it looks once more: who arrives later sees that and rings.
Status LocalGroup::Sleep(std::uint64_t turn, std::chrono::steady_clock::time_point deadline) {
  Control& mine = ControlOf(options_.index);
  mine.sleeping.store(1, std::memory_order_seq_cst);
  if (OffersCores()) OfferCore(turn);
  Status status;
  for (;;) {
    const std::uint32_t seen = mine.doorbell.load(std::memory_order_seq_cst);
    status = AbortStatus();
    if (!status.ok() || AllArrived(turn)) break;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) {
      status = Missing(turn);
      break;
    }
    FutexWait(mine.doorbell, seen, left);
  }
  mine.sleeping.store(0, std::memory_order_seq_cst);
  return status;
}

// To one rank: helpers of several would take this core from each other.
void LocalGroup::OfferCore(std::uint64_t turn) const {
  for (std::size_t i = 1; i < options_.size(); ++i) {
    Control& other = ControlOf((options_.index + i) % options_.size());
    if (other.arrived.load(std::memory_order_seq_cst) >= turn) continue;
    if (other.wants_offers.load(std::memory_order_seq_cst) == 0) continue;
    other.offers.fetch_add(1, std::memory_order_seq_cst);
    FutexWake(other.offers);
    return;
  }
}

// Each offer once: who makes nothing of it waits for the next.
bool LocalGroup::Await() {
  Control& mine = ControlOf(options_.index);
  // Who sleeps already has offered its core to nobody.
  if (mine.wants_offers.exchange(1, std::memory_order_seq_cst) == 0 && Idle()) return true;
  while (!ended_.load(std::memory_order_seq_cst)) {
    const std::uint32_t offers = mine.offers.load(std::memory_order_seq_cst);
    if (offers != std::exchange(offers_seen_, offers)) {
      if (Idle()) return true;
      continue;
    }
    FutexWait(mine.offers, offers, std::nullopt);
  }
  mine.wants_offers.store(0, std::memory_order_seq_cst);
  return false;
}

bool LocalGroup::Idle() const {
  if (aborted_.load(std::memory_order_acquire) != nullptr || ended_) return false;
  const std::uint64_t here = ControlOf(options_.index).arrived.load(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Control& other = ControlOf(i);
    if (other.sleeping.load(std::memory_order_seq_cst) != 0 &&
        other.arrived.load(std::memory_order_seq_cst) > here) {
      return true;
    }
  }
  return false;
}

std::vector<int> LocalGroup::CpusOfOthers() const {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    for (std::size_t i = 0; i < options_.size(); ++i) {
      const std::uint64_t word = ControlOf(i).cpus[static_cast<std::size_t>(cpu) / 64].load();
      if (i == options_.index || (word >> (cpu % 64) & 1) == 0) continue;
      cpus.push_back(cpu);
      break;
    }
  }
  return cpus;
}

void LocalGroup::End() {
  ended_.store(true, std::memory_order_seq_cst);
  Control& mine = ControlOf(options_.index);
  mine.offers.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(mine.offers);
}

Status LocalGroup::Missing(std::uint64_t turn) const {
  std::string missing;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    if (ControlOf(i).arrived.load() >= turn) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", options_.ranks[i]);
  }
  return Status::Error(Code::kTimeout, fmt::format("rank(s) {} did not arrive in time", missing));
}

void LocalGroup::Abort(const Status& why) {
  auto storage = std::make_unique<const Status>(why);
  const Status* expected = nullptr;
  // The first reason stays; it lives as long as the group.
  if (aborted_.compare_exchange_strong(expected, storage.get(), std::memory_order_acq_rel)) {
    aborted_storage_ = std::move(storage);
  }
  Wake(options_.index);
}

}  // namespace paceline::collective

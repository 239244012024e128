#include "ps/shared_floats.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kernel/copy.h"
#include "net/secret.h"
#include "ps/channel.h"

namespace paceline::ps {

namespace {

// In the page of the cookie, in a line of the cache of its own.
constexpr std::size_t kCounterAt = 128;
static_assert(ChangeCounter::is_always_lock_free, "processes share it");

std::span<float> FloatsIn(const net::SharedMemory& memory) {
  const auto area = AreaOf(memory);
  return {reinterpret_cast<float*>(area.data()), area.size() / sizeof(float)};
}

}  // namespace

SharedFloats::SharedFloats(std::size_t count) {
  if (count * sizeof(float) > kInlineBytes) {
    auto made = net::SharedMemory::CreateForReaders(kCookieBytes + count * sizeof(float));
    if (made.ok()) memory_ = std::move(*made);
  }
  if (memory_) {
    floats_ = FloatsIn(*memory_);
    counter_ = new (memory_->bytes().data() + kCounterAt) ChangeCounter(0);
  } else {
    own_.resize(count);
    floats_ = own_;
  }
}

SharedFloats::Change::Change(SharedFloats& floats) : counter_(*floats.counter_) {
  counter_.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // no change is seen before the odd number
}

SharedFloats::Change::~Change() { counter_.fetch_add(1, std::memory_order_release); }

Result<MemoryOffer> SharedFloats::Offer() {
  if (!memory_) return Status::Error(Code::kUnavailable, "these floats are not shared");
  const MutexLock lock(mutex_);
  const auto cookie = memory_->bytes().first(sizeof(wire::Nonce));
  if (!server_) {
    PACELINE_ASSIGN(const wire::Nonce made, net::MakeNonce());
    std::ranges::copy(made, cookie.begin());
    PACELINE_ASSIGN(server_, net::FdServer::Start(memory_->fd()));
  }
  MemoryOffer offer{.use = MemoryUse::kValues,
                    .bytes = memory_->bytes().size(),
                    .cookie = {},
                    .socket = server_->name()};
  std::ranges::copy(cookie, offer.cookie.begin());
  return offer;
}

Result<FloatsReader> FloatsReader::Map(const MemoryOffer& offer) {
  PACELINE_ASSIGN(net::SharedMemory memory, FetchMemory(offer));
  return FloatsReader(std::move(memory));
}

FloatsReader::FloatsReader(net::SharedMemory memory)
    : memory_(std::move(memory)),
      floats_(FloatsIn(memory_)),
      counter_(reinterpret_cast<const ChangeCounter*>(memory_.bytes().data() + kCounterAt)) {}

void FloatsReader::Read(std::size_t begin, std::span<float> out) const {
  kernel::CopyPart(out, floats_.subspan(begin, out.size()), floats_.size_bytes());
}

bool FloatsReader::IsStill(std::uint64_t changes) const {
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read was read before
  return changes % 2 == 0 && counter_->load(std::memory_order_relaxed) == changes;
}

}  // namespace paceline::ps

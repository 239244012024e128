#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "base/mutex.h"

// gloo's transport with waits that can be ended; for gloo_engine.cc alone.
namespace paceline::collective {

using SteadyTime = std::chrono::steady_clock::time_point;

struct TimedOut : std::exception {};
struct Interrupted : std::exception {};

// Ends the waits of an operation: at its deadline, or when told to. gloo by itself only knows a
// timeout per wait. Thread-safe.
class Interrupter {
 public:
  void Start(SteadyTime deadline) {
    const MutexLock lock(mutex_);
    deadline_ = deadline;
  }
  SteadyTime deadline() const {
    const MutexLock lock(mutex_);
    return deadline_;
  }
  bool raised() const {
    const MutexLock lock(mutex_);
    return raised_;
  }

  // For all that exist now; whoever waits later asks raised() first.
  void Raise() {
    const MutexLock lock(mutex_);
    raised_ = true;
    for (gloo::transport::UnboundBuffer* buffer : buffers_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }
  void Add(gloo::transport::UnboundBuffer* buffer) {
    const MutexLock lock(mutex_);
    buffers_.insert(buffer);
  }
  void Remove(gloo::transport::UnboundBuffer* buffer) {
    const MutexLock lock(mutex_);
    buffers_.erase(buffer);
  }

 private:
  mutable Mutex mutex_;
  SteadyTime deadline_ PACELINE_GUARDED_BY(mutex_){};
  bool raised_ PACELINE_GUARDED_BY(mutex_) = false;
  std::set<gloo::transport::UnboundBuffer*> buffers_ PACELINE_GUARDED_BY(mutex_);
};

// A buffer of gloo whose waits obey an Interrupter.
class InterruptibleBuffer final : public gloo::transport::UnboundBuffer {
 public:
  InterruptibleBuffer(std::unique_ptr<gloo::transport::UnboundBuffer> inner,
                      Interrupter& interrupter)
      : UnboundBuffer(inner->ptr, inner->size),
        inner_(std::move(inner)),
        interrupter_(interrupter) {
    interrupter_.Add(inner_.get());
  }
  ~InterruptibleBuffer() override { interrupter_.Remove(inner_.get()); }

  bool waitRecv(int* rank, std::chrono::milliseconds /*timeout*/) override {
    return Wait([&](std::chrono::milliseconds left) { return inner_->waitRecv(rank, left); });
  }
  bool waitSend(int* rank, std::chrono::milliseconds /*timeout*/) override {
    return Wait([&](std::chrono::milliseconds left) { return inner_->waitSend(rank, left); });
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  template <typename Function>
  bool Wait(Function&& wait) {
    const SteadyTime deadline = interrupter_.deadline();
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (interrupter_.raised()) throw Interrupted();
    if (left <= std::chrono::milliseconds::zero()) throw TimedOut();
    try {
      if (!wait(left)) throw Interrupted();
    } catch (const gloo::IoException&) {  // also thrown at the end of `left`
      if (std::chrono::steady_clock::now() >= deadline) throw TimedOut();
      throw;
    }
    return true;
  }

  std::unique_ptr<gloo::transport::UnboundBuffer> inner_;
  Interrupter& interrupter_;
};

// A transport whose buffers are interruptible, the temporary ones of gloo's algorithms included.
class InterruptibleTransport final : public gloo::transport::Context {
 public:
  InterruptibleTransport(std::shared_ptr<gloo::transport::Context> inner, Interrupter& interrupter)
      : Context(inner->rank, inner->size), inner_(std::move(inner)), interrupter_(interrupter) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override {
    return inner_->getPair(peer);
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    return inner_->createPair(peer);
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* memory,
                                                                      std::size_t bytes) override {
    return std::make_unique<InterruptibleBuffer>(inner_->createUnboundBuffer(memory, bytes),
                                                 interrupter_);
  }

 private:
  std::shared_ptr<gloo::transport::Context> inner_;
  Interrupter& interrupter_;
};

}  // namespace paceline::collective

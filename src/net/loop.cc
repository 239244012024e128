#include "net/loop.h"

#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "base/check.h"
#include "base/thread.h"
#include "net/internal/loop_impl.h"

namespace paceline::net {

namespace {

// The state outlives the handle: a completion that is already queued finds it cancelled.
class SteadyTimer final : public Loop::Timer {
 public:
  SteadyTimer(asio::io_context& context, std::chrono::nanoseconds delay, std::function<void()> task)
      : timer_(context, delay), task_(std::make_shared<std::function<void()>>(std::move(task))) {
    timer_.async_wait([weak = std::weak_ptr(task_)](const std::error_code& error) {
      if (error) return;
      if (const auto alive = weak.lock()) (*alive)();
    });
  }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<std::function<void()>> task_;
};

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) {
  impl_->thread = StartThread("io", [context = &impl_->context] { context->run(); });
}

Loop::~Loop() {
  PACELINE_CHECK(!OnLoop(), "the loop cannot end itself");
  // Behind everything that was posted before: closing a connection is what frees it.
  Post([context = &impl_->context] { context->stop(); });
  impl_->thread.join();
  const MutexLock lock(impl_->mutex);
  for (const auto& task : impl_->at_end) task();
}

void Loop::AtEnd(std::function<void()> task) {
  const MutexLock lock(impl_->mutex);
  impl_->at_end.push_back(std::move(task));
}

void Loop::Post(std::function<void()> task) { asio::post(impl_->context, std::move(task)); }

bool Loop::OnLoop() const { return std::this_thread::get_id() == impl_->thread.get_id(); }

std::unique_ptr<Loop::Timer> Loop::AfterOnLoop(std::chrono::nanoseconds delay,
                                               std::function<void()> task) {
  PACELINE_CHECK(OnLoop(), "timers belong to the loop");
  return std::make_unique<SteadyTimer>(impl_->context, delay, std::move(task));
}

}  // namespace paceline::net

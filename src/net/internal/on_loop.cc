#include "net/internal/on_loop.h"

#include <future>
#include <memory>

namespace paceline::net::internal {

void RunOnLoop(Loop& loop, const std::function<void()>& task) {
  if (loop.OnLoop()) {
    task();
    return;
  }
  // Shared: the waiting thread may be gone before set_value has returned.
  const auto done = std::make_shared<std::promise<void>>();
  loop.Post([done, &task] {
    task();
    done->set_value();
  });
  done->get_future().wait();
}

}  // namespace paceline::net::internal

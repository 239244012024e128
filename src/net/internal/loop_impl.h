#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "base/mutex.h"
#include "net/loop.h"

namespace paceline::net {

struct Loop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
  std::jthread thread;
  Mutex mutex;
  std::vector<std::function<void()>> at_end PACELINE_GUARDED_BY(mutex);
};

}  // namespace paceline::net

#pragma once

#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

namespace paceline {

// A joining thread with a name that tools show (the kernel keeps 15 characters).
template <typename Function>
std::jthread StartThread(const std::string& name, Function&& function) {
  std::jthread thread(std::forward<Function>(function));
  ::pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

}  // namespace paceline

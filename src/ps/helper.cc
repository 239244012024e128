#include "ps/helper.h"

#include "base/thread.h"

namespace paceline::ps {

Helper::~Helper() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool Helper::Take(std::size_t& number) {
  if (task_ == nullptr || next_ == count_) return false;
  number = next_++;
  return true;
}

void Helper::Share(std::size_t count, const Task& task) {
  if (!thread_.joinable()) thread_ = StartThread("ps-helper", [this] { Run(); });
  {
    const MutexLock lock(mutex_);
    task_ = &task;
    next_ = 0;
    count_ = count;
    changed_.notify_all();
  }
  for (;;) {
    std::size_t number = 0;
    {
      const MutexLock lock(mutex_);
      if (!Take(number)) {
        while (helps_) changed_.wait(mutex_);
        task_ = nullptr;
        return;
      }
    }
    task(number);
  }
}

void Helper::Run() {
  for (;;) {
    std::size_t number = 0;
    const Task* task = nullptr;
    {
      const MutexLock lock(mutex_);
      helps_ = false;
      if (task_ != nullptr && next_ == count_) changed_.notify_all();
      while (!stopped_ && !Take(number)) changed_.wait(mutex_);
      if (stopped_) return;
      helps_ = true;
      task = task_;
    }
    (*task)(number);
  }
}

}  // namespace paceline::ps

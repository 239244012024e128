#pragma once

#include <mutex>

// Clang's thread-safety analysis; other compilers see nothing.
#if defined(__clang__)
#define PACELINE_ANNOTATION(x) __attribute__((x))
#else
#define PACELINE_ANNOTATION(x)
#endif

#define PACELINE_CAPABILITY(x) PACELINE_ANNOTATION(capability(x))
#define PACELINE_SCOPED_CAPABILITY PACELINE_ANNOTATION(scoped_lockable)
#define PACELINE_GUARDED_BY(x) PACELINE_ANNOTATION(guarded_by(x))
#define PACELINE_REQUIRES(...) PACELINE_ANNOTATION(requires_capability(__VA_ARGS__))
#define PACELINE_EXCLUDES(...) PACELINE_ANNOTATION(locks_excluded(__VA_ARGS__))
#define PACELINE_ACQUIRE(...) PACELINE_ANNOTATION(acquire_capability(__VA_ARGS__))
#define PACELINE_RELEASE(...) PACELINE_ANNOTATION(release_capability(__VA_ARGS__))
#define PACELINE_TRY_ACQUIRE(...) PACELINE_ANNOTATION(try_acquire_capability(__VA_ARGS__))

namespace paceline {

// std::mutex that the analysis can see (libstdc++'s is not annotated). BasicLockable, so that
// std::condition_variable_any can wait on it directly.
class PACELINE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() PACELINE_ACQUIRE() { mutex_.lock(); }
  void unlock() PACELINE_RELEASE() { mutex_.unlock(); }
  bool try_lock() PACELINE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

class PACELINE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PACELINE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() PACELINE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace paceline

#pragma once

#include "base/mutex.h"
#include "base/status.h"
#include "collective/local_group.h"

namespace paceline::collective {

// The first failure of an engine, which ends what waits in its local group. Outlives the engine in
// the mesh's callback. Thread-safe.
struct FailureState {
  Mutex mutex;
  Status status PACELINE_GUARDED_BY(mutex);
  LocalGroup* local PACELINE_GUARDED_BY(mutex) = nullptr;

  Status Get() {
    const MutexLock lock(mutex);
    return status;
  }
  // Whether this is the first failure.
  bool Set(const Status& why) {
    const MutexLock lock(mutex);
    if (!status.ok()) return false;
    status = why;
    if (local != nullptr) local->Abort(why);
    return true;
  }
};

}  // namespace paceline::collective

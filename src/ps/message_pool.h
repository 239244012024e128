#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "ps/push_message.h"

namespace paceline::ps {

// A message that several keep.
using SharedMessage = std::shared_ptr<const MessageBytes>;

// Memory of long messages that is used again: finding new pages for one costs as much as copying
// it. Thread-safe; messages may outlive the pool.
class MessagePool {
 public:
  // The memory comes back when nobody has the message any more.
  SharedMessage Share(MessageBytes message);
  // Memory of any length and content; empty when there is none.
  MessageBytes Take();

 private:
  struct Spare {
    Mutex mutex;
    std::vector<MessageBytes> messages PACELINE_GUARDED_BY(mutex);
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

}  // namespace paceline::ps

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "ps/push_message.h"

namespace paceline::ps {

// A message that several keep.
using SharedMessage = std::shared_ptr<const MessageBytes>;

// The same wherever it lies: its bytes stay as they are until the owner is let go.
struct KeptMessage {
  KeptMessage() = default;  // none
  KeptMessage(std::span<const std::byte> message, std::shared_ptr<const void> keeper)
      : bytes(message), owner(std::move(keeper)) {}
  KeptMessage(const SharedMessage& message)  // NOLINT(google-explicit-constructor): is one
      : KeptMessage(AsBytes(*message), message) {}

  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

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

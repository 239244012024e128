#include "ps/message_pool.h"

#include <utility>

namespace paceline::ps {

namespace {

constexpr std::size_t kShortestBytes = std::size_t{1} << 20;
constexpr std::size_t kMostSpare = 16;

}  // namespace

SharedMessage MessagePool::Share(MessageBytes message) {
  if (message.capacity() * sizeof(message[0]) < kShortestBytes) {
    return std::make_shared<const MessageBytes>(std::move(message));
  }
  return {new MessageBytes(std::move(message)), [spare = spare_](MessageBytes* done) {
            const std::unique_ptr<MessageBytes> owner(done);
            const MutexLock lock(spare->mutex);
            if (spare->messages.size() < kMostSpare) spare->messages.push_back(std::move(*owner));
          }};
}

MessageBytes MessagePool::Take() {
  const MutexLock lock(spare_->mutex);
  if (spare_->messages.empty()) return {};
  MessageBytes memory = std::move(spare_->messages.back());
  spare_->messages.pop_back();
  return memory;
}

}  // namespace paceline::ps

#include "ps/local_store.h"

#include <future>

namespace paceline::ps {

Result<PullAnswer> LocalStore::Pull(const PullRequest& request) {
  return core_.Pull(request, [] { return false; });
}

Status LocalStore::Push(const ps::Push& push, std::span<const std::uint64_t> pulled) {
  ps::Push versioned = push;
  versioned.version = pulled.empty() ? 0 : pulled.front();
  PACELINE_ASSIGN(const ServerCore::Pushed pushed, core_.Push(versioned));
  std::uint64_t last = last_record_.load();
  while (last < pushed.record && !last_record_.compare_exchange_weak(last, pushed.record)) {
  }
  return {};
}

Status LocalStore::Flush() {
  const std::uint64_t record = last_record_.load();
  if (record == 0) return {};
  std::promise<Status> durable;
  core_.WhenDurable(record, [&](const Status& status) { durable.set_value(status); });
  return durable.get_future().get();
}

}  // namespace paceline::ps

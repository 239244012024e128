#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "ps/server_core.h"
#include "ps/store.h"

namespace paceline::ps {

// A server in the same process as its trainers, without a network: the only one of its job
// (ServerCoreOptions::servers is 1). Thread-safe. Borrows the core, which is configured.
class LocalStore final : public Store {
 public:
  explicit LocalStore(ServerCore& core) : core_(core) {}

  Status Initialise(std::span<const float> dense) override { return core_.Initialise(dense); }
  Result<std::uint64_t> NextBatch(std::uint64_t lease) override { return core_.NextBatch(lease); }
  // kAborted after ServerCore::Interrupt().
  Result<PullAnswer> Pull(const PullRequest& request) override;
  Status Push(const ps::Push& push, std::span<const std::uint64_t> pulled) override;
  Status Flush() override;
  std::uint64_t Acknowledged(std::uint64_t) override { return 0; }
  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table,
                                  std::uint64_t call) override {
    return core_.PullChanged(trainer, table, call);
  }

 private:
  ServerCore& core_;
  std::atomic<std::uint64_t> last_record_{0};  // of the log; 0: none
};

}  // namespace paceline::ps

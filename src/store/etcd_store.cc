#include "store/etcd_store.h"

#include <algorithm>
#include <condition_variable>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace paceline::store {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kGrace{2};         // etcd removes an expired key within a second
constexpr int kMaxClaims = 3;        // openers that died while we waited for another one
constexpr int kMaxSaveAttempts = 3;  // Saves of ours whose outcome we learn too late

// False when it was stopped.
bool WaitUnlessStopped(const std::stop_token& stop, milliseconds time) {
  Mutex mutex;
  std::condition_variable_any never;
  MutexLock lock(mutex);
  never.wait_for(mutex, stop, time, [] { return false; });
  return !stop.stop_requested();
}

// A lease that a thread renews until the destructor revokes it. Borrows `client`.
class KeptLease {
 public:
  KeptLease(EtcdClient& client, std::int64_t id, seconds ttl)
      : client_(client),
        id_(id),
        ttl_(ttl),
        thread_(StartThread("etcd-lease", [this](const std::stop_token& stop) { Renew(stop); })) {}
  ~KeptLease() {
    thread_.request_stop();
    thread_.join();
    if (const Status status = client_.Revoke(id_); !status.ok()) {
      PACELINE_LOG(Warning, "a successor has to wait {} s: {}", ttl_.count(), status.message());
    }
  }
  KeptLease(const KeptLease&) = delete;
  KeptLease& operator=(const KeptLease&) = delete;

 private:
  void Renew(const std::stop_token& stop) {
    milliseconds pause = milliseconds(ttl_) / 3;
    bool failing = false;  // an outage is worth one line, not one for each attempt
    while (WaitUnlessStopped(stop, pause)) {
      const auto alive = client_.KeepAlive(id_);
      if (alive.ok() && !*alive) {
        PACELINE_LOG(Warning, "the lease at etcd {} has ended", client_.Describe());
        return;
      }
      if (!alive.ok() && !failing) {
        PACELINE_LOG(Warning, "lease not renewed: {}", alive.status().message());
      }
      failing = !alive.ok();
      pause = milliseconds(ttl_) / (alive.ok() ? 3 : 10);
    }
  }

  EtcdClient& client_;
  const std::int64_t id_;
  const seconds ttl_;
  std::jthread thread_;  // last: uses the others
};

// Thread-compatible; the lease's own thread shares only the client.
class EtcdStore final : public StateStore {
 public:
  EtcdStore(std::vector<net::Endpoint> endpoints, const StateStoreOptions& options)
      : keys_(options.id), client_(std::move(endpoints), options.request_timeout) {}

  // Becomes the owner, or says who is.
  Status Claim(const StateStoreOptions& options);

  Result<std::optional<std::string>> Load() override;
  Status Save(std::string_view state) override;
  std::string Describe() const override {
    return fmt::format("etcd {} {}", client_.Describe(), keys_.prefix);
  }

 private:
  // True: we are the owner now. False: `holder` came first.
  Result<bool> TryClaim(const StateStoreOptions& options, std::optional<EtcdValue>& holder);
  Status WaitForEnd(const EtcdValue& holder, const std::stop_token& stop);
  Status InUse(const EtcdValue& holder, const std::string& why) const;
  Status Fenced(const std::optional<EtcdValue>& owner) const;

  const EtcdKeys keys_;
  EtcdClient client_;
  std::int64_t owner_revision_ = 0;  // of the owner key's creation, by us
  std::int64_t state_revision_ = 0;  // of the last change that we know of; 0: none yet
  std::unique_ptr<KeptLease> lease_;
};

Status EtcdStore::Claim(const StateStoreOptions& options) {
  std::optional<EtcdValue> holder;
  for (int attempt = 0; attempt < kMaxClaims; ++attempt) {
    PACELINE_ASSIGN(holder, client_.Get(keys_.owner));
    if (!holder) {
      PACELINE_ASSIGN(const bool claimed, TryClaim(options, holder));
      if (claimed) return {};
    }
    PACELINE_TRY(WaitForEnd(*holder, options.stop));
  }
  return InUse(*holder, "one owner follows the other");
}

Result<bool> EtcdStore::TryClaim(const StateStoreOptions& options,
                                 std::optional<EtcdValue>& holder) {
  PACELINE_ASSIGN(const std::int64_t id, client_.GrantLease(options.lease_ttl));
  auto lease = std::make_unique<KeptLease>(client_, id, options.lease_ttl);
  PACELINE_ASSIGN(EtcdValue owner,
                  client_.PutIfAbsent({.key = keys_.owner, .value = options.owner, .lease = id}));
  if (owner.lease != id) {
    holder = std::move(owner);
    return false;
  }
  PACELINE_ASSIGN(const auto state, client_.Get(keys_.state));
  owner_revision_ = owner.create_revision;
  state_revision_ = state ? state->mod_revision : 0;
  lease_ = std::move(lease);
  return true;
}

// Success when the key is free or another's; kAlreadyRunning when its owner shows signs of life.
Status EtcdStore::WaitForEnd(const EtcdValue& holder, const std::stop_token& stop) {
  if (holder.lease == 0) return InUse(holder, "the key has no lease and never expires");
  PACELINE_ASSIGN(const EtcdLease first, client_.TimeToLive(holder.lease));
  const Instant start = SystemClock().Now();
  const Instant deadline = start + std::max(first.remaining, seconds(0)) + kGrace;
  PACELINE_LOG(Warning, "{} belongs to {}; if that one has died, its lease ends within {} s",
               Describe(), holder.value, std::max(first.remaining.count() + 1, std::int64_t{1}));
  const milliseconds pause =
      std::clamp(milliseconds(first.granted) / 10, milliseconds(50), milliseconds(500));
  while (WaitUnlessStopped(stop, pause)) {
    PACELINE_ASSIGN(const auto owner, client_.Get(keys_.owner));
    if (!owner || owner->create_revision != holder.create_revision) return {};
    const Instant asked = SystemClock().Now();
    PACELINE_ASSIGN(const EtcdLease lease, client_.TimeToLive(holder.lease));
    if (WasRenewed(first.remaining, asked - start, lease.remaining)) {
      return InUse(holder, "it has just renewed its lease");
    }
    if (asked > deadline) return InUse(holder, "its lease does not end");
  }
  return Status::Error(Code::kAborted, "stopped while waiting for the lease of " + holder.value);
}

Status EtcdStore::InUse(const EtcdValue& holder, const std::string& why) const {
  return Status::Error(Code::kAlreadyRunning,
                       fmt::format("{} is in use by {} ({})", Describe(), holder.value, why));
}

Status EtcdStore::Fenced(const std::optional<EtcdValue>& owner) const {
  return Status::Error(Code::kFenced,
                       fmt::format("{}: our lease has ended; the owner is {}", Describe(),
                                   owner ? owner->value : std::string("nobody yet")));
}

Result<std::optional<std::string>> EtcdStore::Load() {
  PACELINE_ASSIGN(auto state, client_.Get(keys_.state));
  if (!state) return std::optional<std::string>();
  return std::optional<std::string>(std::move(state->value));
}

// A request whose answer was lost may still be carried out, now or later. Comparing the last
// change as well makes sure that it cannot overwrite a state that was saved after it.
Status EtcdStore::Save(std::string_view state) {
  if (state.size() > kMaxStateBytes) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a state of {} bytes for {}: at most {}", state.size(),
                                     Describe(), kMaxStateBytes));
  }
  for (int attempt = 0; attempt < kMaxSaveAttempts; ++attempt) {
    PACELINE_ASSIGN(auto put, client_.GuardedPut({.owner_key = keys_.owner,
                                                  .owner_create_revision = owner_revision_,
                                                  .key = keys_.state,
                                                  .mod_revision = state_revision_},
                                                 state));
    if (put.done) {
      state_revision_ = put.revision;
      return {};
    }
    if (!put.owner || put.owner->create_revision != owner_revision_) return Fenced(put.owner);
    state_revision_ = put.current ? put.current->mod_revision : 0;
    if (put.current && put.current->value == state) return {};  // this one, at another endpoint
  }
  return Status::Error(Code::kUnavailable,
                       Describe() + ": the state changes under us; does somebody else write it?");
}

}  // namespace

bool WasRenewed(seconds first_remaining, std::chrono::nanoseconds elapsed, seconds remaining) {
  // Rounding is towards zero: 0 may also be a lease that is overdue.
  return remaining > seconds(0) && remaining >= first_remaining + seconds(1) - elapsed;
}

Result<std::unique_ptr<StateStore>> OpenEtcdStore(std::vector<net::Endpoint> endpoints,
                                                  const StateStoreOptions& options) {
  auto store = std::make_unique<EtcdStore>(std::move(endpoints), options);
  PACELINE_TRY(store->Claim(options));
  return std::unique_ptr<StateStore>(std::move(store));
}

}  // namespace paceline::store

#include "ps/server_core.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "kernel/reduce.h"
#include "ps/server_core_impl.h"

namespace paceline::ps {

namespace {

Status NotReady(const char* why) { return Status::Error(Code::kUnavailable, why); }

void Count(StalenessHistogram& histogram, std::uint64_t staleness) {
  const auto place = static_cast<std::size_t>(std::bit_width(staleness));
  if (histogram.counts.size() <= place) histogram.counts.resize(place + 1);
  ++histogram.counts[place];
}

}  // namespace

Result<Wal> ParseWal(std::string_view name) {
  if (name == "always") return Wal::kAlways;
  if (name == "group") return Wal::kGroup;
  if (name == "off") return Wal::kOff;
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("no write-ahead log is named '{}': always, group, off", name));
}

Result<ServerValues*> ServerCore::Impl::Configured() const {
  const MutexLock lock(state_);
  PACELINE_TRY(failure_);
  if (values_ == nullptr) return NotReady("this server does not know its job yet");
  return values_.get();
}

Result<ServerValues*> ServerCore::Impl::Ready() const {
  PACELINE_ASSIGN(ServerValues* const values, Configured());
  const MutexLock lock(state_);
  if (!initialised_) return NotReady("this server has no dense values yet");
  return values;
}

Status ServerCore::Impl::Configure(const JobSpec& spec) {
  PACELINE_TRY(CheckJobSpec(spec));
  const MutexLock writing(writer_);
  const auto values = Configured();
  if (values.ok()) {
    const std::string difference = JobDifference((*values)->spec(), spec);
    if (difference.empty()) return {};
    return Status::Error(Code::kMismatch,
                         "the jobs of this server / of this trainer differ: " + difference);
  }
  if (values.status().code() != Code::kUnavailable) return values.status();
  ServerState state;
  PACELINE_ASSIGN(state.values, ServerValues::Open(spec, ValuesOptions()));
  state.initialised = state.values->dense().floats() == 0;
  state.progress = Progress(spec.trainers);
  PACELINE_ASSIGN(
      const std::uint64_t record,
      Log(ChangeType::kJob,
          EncodeServerJob({.index = options_.index, .servers = options_.servers, .spec = spec})));
  Adopt(std::move(state));
  return AwaitDurable(record);
}

Status ServerCore::Impl::Initialise(std::span<const float> dense) {
  const MutexLock writing(writer_);
  PACELINE_ASSIGN(ServerValues* const values, Configured());
  if (dense.size() != values->dense().floats()) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} first values: this server has {} dense floats",
                                     dense.size(), values->dense().floats()));
  }
  if (!kernel::AllFinite(dense)) {
    return Status::Error(Code::kInvalidArgument, "a first dense value is not finite");
  }
  if (Ready().ok()) return {};
  PACELINE_ASSIGN(const std::uint64_t record, Log(ChangeType::kInitialise, std::as_bytes(dense)));
  values->dense().Assign(dense);
  {
    const MutexLock lock(state_);
    initialised_ = true;
  }
  return AwaitDurable(record);
}

Result<ServerCore::Pushed> ServerCore::Impl::Push(MessageBytes& message, bool dense_is_finite) {
  SharedMessage shared = pool_.Share(std::move(message));
  auto pushed = PushKept(shared, dense_is_finite);
  shared.reset();  // where nobody keeps it, it is what comes back: its pages are there
  message = pool_.Take();
  return pushed;
}

Result<ServerCore::Pushed> ServerCore::Impl::PushKept(const SharedMessage& message,
                                                      bool dense_is_finite) {
  PACELINE_ASSIGN(const ps::Push push, DecodePush(AsBytes(*message)));
  return PushOnce(push, message, dense_is_finite);
}

Result<ServerCore::Pushed> ServerCore::Impl::Push(const ps::Push& push, bool dense_is_finite) {
  PACELINE_ASSIGN(const ServerValues* const values, Ready());
  if (!Logs() && !values->spec().WaitsForOthers()) {
    return PushOnce(push, {}, dense_is_finite);
  }
  return PushKept(std::make_shared<const MessageBytes>(EncodePush(push)), dense_is_finite);
}

Result<ServerCore::Pushed> ServerCore::Impl::Push(const ps::Push& push, const KeptMessage& message,
                                                  bool dense_is_finite) {
  PACELINE_ASSIGN(const ServerValues* const values, Ready());
  if (values->spec().WaitsForOthers()) {
    return Status::Error(Code::kInvalidArgument, "a push that waits is not used where it lies");
  }
  return PushOnce(push, message, dense_is_finite);
}

Result<ServerCore::Pushed> ServerCore::Impl::PushOnce(ps::Push push, const KeptMessage& message,
                                                      bool dense_is_finite) {
  const MutexLock writing(writer_);
  PACELINE_ASSIGN(ServerValues* const values, Ready());
  {
    const MutexLock lock(state_);
    PACELINE_ASSIGN(const auto answer, progress_.Check(push));
    if (answer == PushLedger::Answer::kDuplicate) {
      ++duplicates_;
      return Pushed{.duplicate = true, .record = LastRecord()};
    }
    const bool together = values->spec().apply == Apply::kTogether;
    // Usually one round. After a server came back without the last ones, whoever is first sends all
    // that were not acknowledged again.
    if (together && push.batch > progress_.version() + kMostUnacknowledged) {
      return Status::Error(Code::kProtocol,
                           fmt::format("batch {} of trainer {}: others are at {}", push.batch,
                                       push.lease, progress_.version()));
    }
  }
  PACELINE_TRY(values->Check(push, dense_is_finite));
  // What is logged is what is applied: pulls, which delays depend on, are not in the log.
  std::vector<float> compensated;
  KeptMessage logged = message;
  if (values->spec().delay_compensation > 0 && !push.deltas && !push.dense.empty()) {
    compensated = values->dense().Compensated(push.lease, push.dense);
    push.dense = compensated;
    PACELINE_TRY(values->Check(push).Wrap("with its delay compensated"));
    if (message.owner != nullptr) logged = pool_.Share(EncodePush(push));
  }
  {
    const MutexLock lock(state_);
    const bool counts = !push.deltas && push.version <= AppliedPushes();
    if (counts) Count(staleness_, AppliedPushes() - push.version);
  }
  std::uint64_t record = 0;
  if (logged.owner != nullptr) {
    PACELINE_ASSIGN(record, Log(ChangeType::kPush, logged.bytes, logged.owner));
  }
  PACELINE_TRY(Apply(*values, push, Plan(*values, push, logged)));
  if (push.save) snapshot_asked_ = true;
  return Pushed{.duplicate = false, .record = record};
}

ServerCore::Impl::Change ServerCore::Impl::Plan(ServerValues& values, const ps::Push& push,
                                                const KeptMessage& message) {
  Change change;
  if (!values.spec().WaitsForOthers()) {
    change.push_back(SumOfOne(push));
    return change;
  }
  rounds_.Add(push.batch, push.lease, message);
  const MutexLock lock(state_);
  const std::uint64_t end = progress_.VersionAfter(push);
  for (std::uint64_t batch = progress_.version(); batch < end; ++batch) {
    change.push_back(rounds_.Sum(batch));
  }
  return change;
}

Status ServerCore::Impl::Apply(ServerValues& values, const ps::Push& push, const Change& change) {
  Status status;
  const bool together = values.spec().apply == ps::Apply::kTogether;
  std::uint64_t round = 0;
  std::vector<WaitingPull> pulls;
  {
    const MutexLock lock(state_);
    // Without waiting, so many pushes as there are trainers are a round, whoever sends them.
    const std::uint64_t of_round = std::max<std::uint64_t>(1, values.spec().trainers);
    round = together ? progress_.version() : progress_.pushes() / of_round;
    if (change.size() == 1 && values.FillsPulls(push)) pulls = ClaimPulls(push);
  }
  for (const PushSum& sum : change) {
    if (!status.ok()) break;
    status =
        together ? values.ApplyRound(round++, sum, pulls) : values.Apply(round, sum.push, pulls);
  }
  const MutexLock lock(state_);
  if (!status.ok()) {
    failure_ = status.Wrap("a push was applied by half");
    ReturnPulls();
    return failure_;
  }
  const std::uint64_t before = progress_.version();
  progress_.Applied(push);
  for (std::uint64_t batch = before; batch < progress_.version(); ++batch) rounds_.Forget(batch);
  waiting_pushes_ = rounds_.pushes();
  waiting_bytes_ = rounds_.bytes();
  ReturnPulls();
  return {};
}

Result<MemoryOffer> ServerCore::Impl::OfferDense() {
  PACELINE_ASSIGN(ServerValues* const values, Configured());
  return values->dense().OfferValues();
}

Result<ChangedRows> ServerCore::Impl::PullChanged(std::uint64_t trainer, std::uint32_t table,
                                                  std::uint64_t call) {
  PACELINE_ASSIGN(ServerValues* const values, Configured());
  return values->PullChanged(trainer, table, call);
}

Result<std::uint64_t> ServerCore::Impl::NextBatch(std::uint64_t lease) {
  PACELINE_TRY(Configured().status());
  const MutexLock lock(state_);
  return progress_.NextBatch(lease);
}

ServerStatus ServerCore::Impl::StatusNow() const {
  ServerStatus status;
  const ServerValues* values = nullptr;
  {
    const MutexLock lock(state_);
    values = values_.get();
    status.configured = values_ != nullptr;
    status.initialised = initialised_;
    status.version = progress_.version();
    status.pushes = progress_.pushes();
    status.ledger = progress_.ledger();
    status.duplicates = duplicates_;
    status.waiting_bytes = waiting_bytes_;
    status.staleness = staleness_;
  }
  status.log_bytes = log_bytes_;
  status.snapshots = snapshots_;
  if (values == nullptr) return status;
  status.tables = values->TableStatuses();
  for (const TableStatus& table : status.tables) status.rows += table.rows;
  status.dense_floats = values->dense().floats();
  status.table_bytes = values->TableBytes();
  status.dense_bytes = values->dense().MemoryBytes();
  return status;
}

void ServerCore::Impl::Interrupt() {
  const MutexLock lock(state_);
  interrupted_ = true;
  changed_.notify_all();
}

Result<std::unique_ptr<ServerCore>> ServerCore::Open(const ServerCoreOptions& options) {
  if (options.servers > kMaxServers || options.index >= options.servers) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("server {} of {}", options.index, options.servers));
  }
  auto impl = std::make_unique<Impl>(options);
  PACELINE_TRY(impl->Recover());
  return std::unique_ptr<ServerCore>(new ServerCore(std::move(impl)));
}

ServerCore::ServerCore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServerCore::~ServerCore() = default;

const ServerRecovery& ServerCore::recovery() const { return impl_->recovery(); }
Status ServerCore::Configure(const JobSpec& spec) { return impl_->Configure(spec); }
Status ServerCore::Initialise(std::span<const float> dense) { return impl_->Initialise(dense); }
Result<ServerCore::Pushed> ServerCore::Push(std::span<const std::byte> message,
                                            bool dense_is_finite) {
  MessageBytes copy(message.size() / sizeof(std::uint64_t));
  std::ranges::copy(message.first(copy.size() * sizeof(std::uint64_t)),
                    std::as_writable_bytes(std::span(copy)).begin());
  if (AsBytes(copy).size() != message.size()) {
    return Status::Error(Code::kProtocol, "a push that no trainer has written");
  }
  return impl_->PushKept(std::make_shared<const MessageBytes>(std::move(copy)), dense_is_finite);
}
Result<ServerCore::Pushed> ServerCore::Push(MessageBytes& message, bool dense_is_finite) {
  return impl_->Push(message, dense_is_finite);
}
Result<ServerCore::Pushed> ServerCore::Push(const ps::Push& push, bool dense_is_finite) {
  return impl_->Push(push, dense_is_finite);
}
Result<ServerCore::Pushed> ServerCore::Push(const ps::Push& push, const KeptMessage& message,
                                            bool dense_is_finite) {
  return impl_->Push(push, message, dense_is_finite);
}
void ServerCore::WhenDurable(std::uint64_t record, std::function<void(const Status&)> done) {
  impl_->WhenDurable(record, std::move(done));
}
Result<PullAnswer> ServerCore::Pull(const PullRequest& request,
                                    const std::function<bool()>& stopped,
                                    const DenseCopied& copied) {
  return impl_->Pull(request, stopped, copied);
}
std::uint64_t ServerCore::DenseChanges(const PullRequest& request, const PullAnswer& answer) const {
  return impl_->DenseChanges(request, answer);
}
Result<MemoryOffer> ServerCore::OfferDense() { return impl_->OfferDense(); }
Result<ChangedRows> ServerCore::PullChanged(std::uint64_t trainer, std::uint32_t table,
                                            std::uint64_t call) {
  return impl_->PullChanged(trainer, table, call);
}
Result<std::uint64_t> ServerCore::NextBatch(std::uint64_t lease) { return impl_->NextBatch(lease); }
Status ServerCore::Snapshot() { return impl_->Snapshot(); }
bool ServerCore::WantsSnapshot() const { return impl_->WantsSnapshot(); }
ServerStatus ServerCore::StatusNow() const { return impl_->StatusNow(); }
void ServerCore::Interrupt() { impl_->Interrupt(); }

}  // namespace paceline::ps

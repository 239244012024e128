#include "collective/native_engine.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "collective/engine_support.h"
#include "collective/failure_state.h"
#include "collective/host_discovery.h"
#include "collective/host_nodes.h"
#include "collective/local_group.h"
#include "collective/local_slots.h"
#include "collective/mesh_operations.h"
#include "collective/network_reduce.h"
#include "collective/tree_sum.h"

namespace paceline::collective {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

// Each rank's region starts with two slots through which small or foreign data pass (two, so that
// one can be filled while slow ranks still read the other), and with room to stage foreign data on
// its way to other hosts. What Allocate() hands out follows.
constexpr std::size_t kSlotBytes = std::size_t{512} << 10;
constexpr std::size_t kStageBytes = std::size_t{8} << 20;
constexpr std::size_t kReservedBytes = 2 * kSlotBytes + kStageBytes;
// Up to this size every rank adds everything itself: one barrier instead of two.
constexpr std::size_t kSmallBytes = std::size_t{8} << 10;
constexpr std::size_t kBufferAlignment = 64;

std::size_t AlignedBytes(std::size_t floats) {
  return (floats * sizeof(float) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

class NativeEngine final : public Engine {
 public:
  NativeEngine(net::Mesh& mesh, const NativeOptions& options, Hosts hosts);
  ~NativeEngine() override;

  const char* name() const override { return "native"; }
  Rank rank() const override { return mesh_.self(); }
  std::uint64_t world() const override { return mesh_.world(); }
  const algo::ShardLayout& layout() const override { return options_.layout; }
  Status failure() const override { return failure_->Get(); }
  bool MovesDataBesideComputation() const override { return !OneHost(); }
  Result<std::span<float>> Allocate(std::size_t floats) override;
  Result<std::span<float>> AllocateCommon(std::size_t floats) override;
  Status AllReduce(std::span<const std::span<float>> parts) override;
  Status ReduceScatter(std::span<const std::span<float>> parts) override;
  Status AllGather(std::span<std::byte> blocks) override;
  Status Broadcast(std::span<std::byte> bytes, Rank root) override;
  Status Barrier() override;
  void Abort(const Status& why) override;
  IdleCores* idle_cores() override {
    return local_ != nullptr && local_->OffersCores() ? local_.get() : nullptr;
  }
  Traffic traffic() const override { return {mesh_.bytes_sent(), mesh_.frames_sent()}; }
  std::vector<Link> Links() const override { return MeshLinks(mesh_); }

  Traffic Predict(std::size_t count) const;
  std::string Describe() const;

 private:
  using Kind = LocalOperation::Kind;

  void PrepareNetwork();
  template <typename Operation>
  Status Guarded(Operation operation);
  MeshCall Call() { return {++operation_ & 0xFFFFFF, deadline_}; }
  Status LocalBarrier() { return local_->Barrier(deadline_); }
  bool OneHost() const { return hosts_.size() == 1; }
  bool AllAlone() const { return hosts_.size() == world(); }

  Result<std::vector<float*>> Pointers(std::span<const std::span<float>> parts) const;
  Status Reduce(std::span<const std::span<float>> parts);
  Status ReduceStaged(std::span<float* const> parts, std::size_t count);
  Status ReduceInPlace(std::span<float* const> parts, std::size_t count, algo::Goal goal);
  Status ReduceBetweenHosts(const std::vector<std::vector<float*>>& local, std::size_t count);
  Result<std::vector<std::vector<float*>>> Exchange(std::span<const std::uint64_t> offsets,
                                                    std::size_t count);
  bool InPlace(std::span<const std::span<float>> parts) const;
  std::vector<std::uint64_t> OffsetsOf(std::span<float* const> parts) const;

  net::Mesh& mesh_;
  NativeOptions options_;
  std::vector<std::vector<Rank>> hosts_;
  std::size_t host_ = 0;
  std::unique_ptr<LocalGroup> local_;
  std::optional<LocalSlots> slots_;
  std::size_t local_size_ = 1, local_index_ = 0;

  std::vector<HostNode> local_nodes_;     // that this host adds up
  std::size_t rails_ = 1;                 // local ranks of each host that talk to other hosts
  std::optional<NetworkReduce> network_;  // on those

  std::uint64_t operation_ = 0;
  Deadline deadline_;
  std::size_t allocated_ = kReservedBytes, common_allocated_ = 0;
  std::vector<std::span<float>> own_;  // what Allocate() gave without shared memory
  FloatArena heap_;                    // for ranks that share no memory
  std::shared_ptr<FailureState> failure_;
};

NativeEngine::NativeEngine(net::Mesh& mesh, const NativeOptions& options, Hosts hosts)
    : mesh_(mesh),
      options_(options),
      hosts_(std::move(hosts.groups)),
      host_(hosts.mine),
      local_(std::move(hosts.local)),
      failure_(std::make_shared<FailureState>()) {
  if (local_ != nullptr) {
    local_size_ = local_->size();
    local_index_ = local_->index();
    slots_.emplace(*local_, /*offset=*/0, kSlotBytes);
  }
  local_nodes_ = PlanHostNodes(options_.layout, hosts_[host_]);
  PrepareNetwork();
  {
    const MutexLock lock(failure_->mutex);
    failure_->local = local_.get();
  }
  mesh_.WhenFailed([state = failure_](const net::Closed& how) { state->Set(how.status); });
}

NativeEngine::~NativeEngine() {
  const MutexLock lock(failure_->mutex);
  failure_->local = nullptr;
}

void NativeEngine::PrepareNetwork() {
  if (OneHost()) return;
  rails_ = hosts_.front().size();
  for (const auto& host : hosts_) rails_ = std::min(rails_, host.size());
  if (local_index_ >= rails_) return;
  NetworkReduce::Options network{
      .self = host_, .segment_bytes = options_.segment_bytes, .speed = options_.speed};
  for (const auto& host : hosts_) {
    network.ranks.push_back(host[local_index_]);
    network.participants.nodes.push_back(NodesOfHost(options_.layout, host));
  }
  network_.emplace(mesh_, network);
}

// The first failure, ours or another rank's, is what every call returns from then on.
template <typename Operation>
Status NativeEngine::Guarded(Operation operation) {
  PACELINE_TRY(failure_->Get());
  deadline_ = std::chrono::steady_clock::now() + options_.timeout;
  Status status = operation();
  if (status.ok()) return status;
  // Who came first tells the others: they are to hear "rank 3 gave up", not what rank 3 was told.
  if (failure_->Set(status)) mesh_.Abort({.code = status.code(), .text = status.message()});
  return failure_->Get();
}

void NativeEngine::Abort(const Status& why) {
  failure_->Set(why);
  mesh_.Abort({.code = Code::kPeerLost,
               .blamed = rank().value(),
               .text = fmt::format("rank {} gave up: {}", rank().value(), why.message())});
}

Result<std::span<float>> NativeEngine::Allocate(std::size_t floats) {
  PACELINE_TRY(failure_->Get());
  const std::size_t bytes = AlignedBytes(floats);
  if (bytes > kReservedBytes + options_.arena_bytes - allocated_) {
    PACELINE_LOG(Warning, "memory for gradients is used up ({} MB); {} MB more will be copied",
                 options_.arena_bytes >> 20, bytes >> 20);
    return heap_.Allocate(floats);
  }
  // A rank that shares no memory counts in the same way, so that all know what is in place.
  const std::size_t offset = std::exchange(allocated_, allocated_ + bytes);
  if (local_ == nullptr) {
    own_.push_back(heap_.Allocate(floats));
    return own_.back();
  }
  const std::uint64_t at = local_->RegionOffset(local_index_) + offset;
  return std::span(reinterpret_cast<float*>(local_->At(at)), floats);
}

Result<std::span<float>> NativeEngine::AllocateCommon(std::size_t floats) {
  PACELINE_TRY(failure_->Get());
  if (local_ == nullptr || !OneHost()) return std::span<float>();
  const std::size_t bytes = AlignedBytes(floats);
  if (bytes > local_->common_bytes() - common_allocated_) return std::span<float>();
  const std::uint64_t at =
      local_->CommonOffset() + std::exchange(common_allocated_, common_allocated_ + bytes);
  return std::span(reinterpret_cast<float*>(local_->At(at)), floats);
}

// Whether all parts come from Allocate(), which is the same on every rank.
bool NativeEngine::InPlace(std::span<const std::span<float>> parts) const {
  return std::all_of(parts.begin(), parts.end(), [&](const std::span<float> part) {
    if (local_ != nullptr) return local_->OffsetOf(part.data(), part.size_bytes()).has_value();
    return std::any_of(own_.begin(), own_.end(), [&](const std::span<float> own) {
      const std::less_equal<> le;
      return le(own.data(), part.data()) && le(part.data() + part.size(), own.data() + own.size());
    });
  });
}

std::vector<std::uint64_t> NativeEngine::OffsetsOf(std::span<float* const> parts) const {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(parts.size());
  for (const float* part : parts) offsets.push_back(*local_->OffsetOf(part, 0));
  return offsets;
}

Status NativeEngine::AllReduce(std::span<const std::span<float>> parts) {
  return Guarded([&] { return Reduce(parts); });
}

// The parts' addresses.
Result<std::vector<float*>> NativeEngine::Pointers(std::span<const std::span<float>> parts) const {
  const std::size_t expected = options_.layout.NodesOf(rank()).size();
  if (parts.size() != expected) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("{} parts; rank {} brings {}", parts.size(), rank().value(), expected));
  }
  std::vector<float*> pointers;
  pointers.reserve(parts.size());
  for (const std::span<float> part : parts) {
    if (part.size() != parts.front().size()) {
      return Status::Error(Code::kInvalidArgument, "parts of different lengths");
    }
    pointers.push_back(part.data());
  }
  return pointers;
}

Status NativeEngine::Reduce(std::span<const std::span<float>> parts) {
  PACELINE_ASSIGN(const std::vector<float*> pointers, Pointers(parts));
  const std::size_t count = parts.front().size();
  if (local_ == nullptr && OneHost()) {  // a world of one
    const std::vector<const float*> sources(pointers.begin(), pointers.end());
    local_nodes_.front().sum->Run(sources, std::span(pointers).first(1), count);
    return {};
  }
  if (OneHost()) {
    // Decided by what is the same on every rank: the number of parts is not.
    const bool small = count * sizeof(float) <= kSmallBytes;
    if (small || !InPlace(parts)) {
      HostNode& all = local_nodes_.front();
      return slots_->Reduce(pointers, count, all.sources, *all.sum, deadline_);
    }
    return ReduceInPlace(pointers, count, algo::Goal::kEverywhere);
  }
  // Ranks that are alone everywhere take any memory; otherwise all cut foreign memory alike.
  if (AllAlone() || InPlace(parts)) return ReduceInPlace(pointers, count, algo::Goal::kEverywhere);
  return ReduceStaged(pointers, count);
}

// Foreign memory on its way to other hosts: piece by piece through the staging area.
Status NativeEngine::ReduceStaged(std::span<float* const> parts, std::size_t count) {
  std::size_t parts_of_any = 1;
  for (std::uint64_t rank = 0; rank < world(); ++rank) {
    parts_of_any = std::max(parts_of_any, options_.layout.NodesOf(Rank(rank)).size());
  }
  const std::size_t most = kStageBytes / sizeof(float) / parts_of_any / 16 * 16;
  for (std::size_t at = 0; at == 0 || at < count; at += most) {
    const std::size_t size = std::min(most, count - at);
    std::vector<float*> staged;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      staged.push_back(parts[part] + at);
      if (local_ == nullptr) continue;
      const std::uint64_t stage = local_->RegionOffset(local_index_) + 2 * kSlotBytes;
      staged.back() = reinterpret_cast<float*>(local_->At(stage)) + part * most;
      std::copy_n(parts[part] + at, size, staged.back());
    }
    PACELINE_TRY(ReduceInPlace(staged, size, algo::Goal::kEverywhere));
    if (local_ != nullptr) std::copy_n(staged[0], size, parts[0] + at);
  }
  return {};
}

// Tells the others of this host where our parts are, and learns where theirs are.
Result<std::vector<std::vector<float*>>> NativeEngine::Exchange(
    std::span<const std::uint64_t> offsets, std::size_t count) {
  const LocalOperation mine{
      .kind = Kind::kReduce, .count = count, .offsets = {offsets.begin(), offsets.end()}};
  local_->Publish(mine);
  PACELINE_TRY(LocalBarrier());
  std::vector<std::vector<float*>> pointers(local_size_);
  for (std::size_t i = 0; i < local_size_; ++i) {
    PACELINE_ASSIGN(const LocalOperation theirs, local_->Read(i, mine, sizeof(float)));
    if (theirs.offsets.size() != options_.layout.NodesOf(hosts_[host_][i]).size()) {
      return Status::Error(
          Code::kProtocol,
          fmt::format("rank {} brings {} parts", hosts_[host_][i].value(), theirs.offsets.size()));
    }
    for (const std::uint64_t offset : theirs.offsets) {
      pointers[i].push_back(reinterpret_cast<float*>(local_->At(offset)));
    }
  }
  return pointers;
}

// Each local rank adds one slice of everybody's parts, where they are.
Status NativeEngine::ReduceInPlace(std::span<float* const> parts, std::size_t count,
                                   algo::Goal goal) {
  if (local_ == nullptr) {
    const MeshCall call = Call();
    return network_->AllReduce(parts, count, call.operation, call.deadline);
  }
  PACELINE_ASSIGN(const auto local, Exchange(OffsetsOf(parts), count));
  const algo::Slice slice = algo::SliceOf(count, local_size_, local_index_);
  for (HostNode& node : local_nodes_) {
    std::vector<const float*> sources;
    for (const auto& [rank, part] : node.sources)
      sources.push_back(local[rank][part] + slice.begin);
    std::vector<float*> targets;
    if (OneHost() && goal == algo::Goal::kEverywhere) {
      for (const auto& pointers : local) targets.push_back(pointers[0] + slice.begin);
    } else if (OneHost()) {
      targets.push_back(local[local_index_][0] + slice.begin);
    } else {
      const auto& [rank, part] = node.sources.front();
      targets.push_back(local[rank][part] + slice.begin);
    }
    node.sum->Run(sources, targets, slice.size());
  }
  PACELINE_TRY(LocalBarrier());
  return OneHost() ? Status() : ReduceBetweenHosts(local, count);
}

// What this host has added up lies where the first part of each subtree was. Some local ranks take
// a slice each to the other hosts and hand the result to their neighbours.
Status NativeEngine::ReduceBetweenHosts(const std::vector<std::vector<float*>>& local,
                                        std::size_t count) {
  const MeshCall call = Call();
  if (network_) {
    const algo::Slice slice = algo::SliceOf(count, rails_, local_index_);
    std::vector<float*> parts;
    for (const HostNode& node : local_nodes_) {
      const auto& [rank, part] = node.sources.front();
      parts.push_back(local[rank][part] + slice.begin);
    }
    PACELINE_TRY(network_->AllReduce(parts, slice.size(), call.operation, call.deadline));
    for (const auto& pointers : local) {
      float* target = pointers[0] + slice.begin;
      if (target != parts[0]) std::copy_n(parts[0], slice.size(), target);
    }
  }
  return LocalBarrier();
}

Status NativeEngine::ReduceScatter(std::span<const std::span<float>> parts) {
  return Guarded([&]() -> Status {
    PACELINE_ASSIGN(const std::vector<float*> pointers, Pointers(parts));
    const std::size_t count = parts.front().size();
    if (OneHost() && world() > 1 && InPlace(parts)) {
      return ReduceInPlace(pointers, count, algo::Goal::kScatter);
    }
    if (AllAlone() && world() > 1) {
      const MeshCall call = Call();
      return network_->ReduceScatter(pointers, count, call.operation, call.deadline);
    }
    return Reduce(parts);  // the whole sum is right as well
  });
}

Status NativeEngine::AllGather(std::span<std::byte> blocks) {
  return Guarded([&]() -> Status {
    PACELINE_TRY(CheckBlocks(blocks.size(), world()));
    if (world() == 1) return {};
    if (!OneHost()) return MeshAllGather(mesh_, blocks, Call());
    return slots_->AllGather(blocks, deadline_);
  });
}

Status NativeEngine::Broadcast(std::span<std::byte> bytes, Rank root) {
  return Guarded([&]() -> Status {
    PACELINE_TRY(CheckRoot(root, world()));
    if (world() == 1) return {};
    if (!OneHost()) return MeshBroadcast(mesh_, bytes, root, Call());
    return slots_->Broadcast(bytes, root.value(), deadline_);  // local ranks are the ranks
  });
}

Status NativeEngine::Barrier() {
  return Guarded([&]() -> Status {
    if (world() == 1) return {};
    if (!OneHost()) return MeshBarrier(mesh_, Call());
    return slots_->Barrier(deadline_);
  });
}

std::string NativeEngine::Describe() const {
  const auto hosts = hosts_.size();
  return fmt::format(
      "engine native, {} rank{} {}", world(), world() == 1 ? "" : "s",
      AllAlone() ? (world() == 1 ? "alone" : "without shared memory")
                 : fmt::format("on {} host{} with shared memory", hosts, hosts == 1 ? "" : "s"));
}

Traffic NativeEngine::Predict(std::size_t count) const {
  if (!network_) return {};
  return network_->Predict(algo::SliceOf(count, rails_, local_index_).size());
}

Result<std::unique_ptr<Engine>> MakeNativeEngine(net::Mesh& mesh, const NativeOptions& options) {
  PACELINE_CHECK(options.layout.world() == mesh.world(), "a layout for this world");
  PACELINE_ASSIGN(
      Hosts hosts,
      DiscoverHosts(mesh, {.shared_memory = options.shared_memory,
                           .region_bytes = kReservedBytes + options.arena_bytes,
                           .common_bytes = options.common_bytes,
                           .deadline = std::chrono::steady_clock::now() + options.setup_timeout}));
  return std::unique_ptr<Engine>(std::make_unique<NativeEngine>(mesh, options, std::move(hosts)));
}

namespace {

const NativeEngine& AsNative(const Engine& engine) {
  const auto* native = dynamic_cast<const NativeEngine*>(&engine);
  PACELINE_CHECK(native != nullptr, "a native engine");
  return *native;
}

}  // namespace

std::string DescribeNative(const Engine& native) { return AsNative(native).Describe(); }

Traffic PredictAllReduceTraffic(const Engine& native, std::size_t count) {
  return AsNative(native).Predict(count);
}

}  // namespace paceline::collective

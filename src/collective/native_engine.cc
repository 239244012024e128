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
#include "collective/host_discovery.h"
#include "collective/local_group.h"
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
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
constexpr std::size_t kLine = 64;

// Subtrees that a host's ranks can add up together: those of each run of neighbouring ranks.
std::vector<algo::TreeNode> NodesOfHost(const algo::ShardLayout& layout,
                                        const std::vector<Rank>& ranks) {
  std::vector<algo::TreeNode> nodes;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1, last = first) {
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last].Next()) ++last;
    const auto run = layout.NodesOf(ranks[first], ranks[last]);
    nodes.insert(nodes.end(), run.begin(), run.end());
  }
  return nodes;
}

// Outlives the engine in the mesh's callback.
struct FailureState {
  Mutex mutex;
  Status status PACELINE_GUARDED_BY(mutex);
  LocalGroup* local PACELINE_GUARDED_BY(mutex) = nullptr;

  void Set(const Status& why) {
    const MutexLock lock(mutex);
    if (!status.ok()) return;
    status = why;
    if (local != nullptr) local->Abort(why);
  }
};

}  // namespace

class NativeEngine final : public Engine {
 public:
  NativeEngine(net::Mesh& mesh, const NativeOptions& options, Hosts hosts);
  ~NativeEngine() override;

  const char* name() const override { return "native"; }
  Rank rank() const override { return mesh_.self(); }
  std::uint64_t world() const override { return mesh_.world(); }
  const algo::ShardLayout& layout() const override { return options_.layout; }
  Result<std::span<float>> Allocate(std::size_t floats) override;
  Status AllReduce(std::span<const std::span<float>> parts) override;
  Status ReduceScatter(std::span<const std::span<float>> parts) override;
  Status AllGather(std::span<std::byte> blocks) override;
  Status Broadcast(std::span<std::byte> bytes, Rank root) override;
  Status Barrier() override;
  void Abort(const Status& why) override;
  Traffic traffic() const override { return {mesh_.bytes_sent(), mesh_.frames_sent()}; }

  Traffic Predict(std::size_t count) const;

 private:
  using Kind = LocalOperation::Kind;

  void PrepareLocalSums();
  void PrepareNetwork();
  template <typename Operation>
  Status Guarded(Operation operation);
  MeshCall Call() { return {++operation_ & 0xFFFFFF, deadline_}; }
  Status LocalBarrier() { return local_->Barrier(deadline_); }
  bool OneHost() const { return hosts_.size() == 1; }

  Result<std::vector<float*>> Pointers(std::span<const std::span<float>> parts) const;
  Status Reduce(std::span<const std::span<float>> parts);
  Status ReduceSmall(std::span<float* const> parts, std::size_t count);
  Status ReduceStaged(std::span<float* const> parts, std::size_t count);
  Status ReduceInPlace(std::span<const std::uint64_t> offsets, std::size_t count, algo::Goal goal);
  Status ReduceBetweenHosts(const std::vector<std::vector<float*>>& local, std::size_t count);
  Result<std::vector<std::vector<float*>>> Exchange(std::span<const std::uint64_t> offsets,
                                                    std::size_t count);
  std::optional<std::vector<std::uint64_t>> OffsetsOf(
      std::span<const std::span<float>> parts) const;
  std::uint64_t NextSlot(std::size_t index) const;

  net::Mesh& mesh_;
  NativeOptions options_;
  std::vector<std::vector<Rank>> hosts_;
  std::size_t host_ = 0;
  std::unique_ptr<LocalGroup> local_;
  std::size_t local_size_ = 1, local_index_ = 0;

  // One entry for each subtree that this host adds up: which parts of which local ranks make it.
  struct LocalNode {
    algo::TreeNode node;
    std::vector<std::pair<std::size_t, std::size_t>> sources;  // (local rank, part), in order
    std::optional<TreeSum> sum;
  };
  std::vector<LocalNode> local_nodes_;
  std::size_t rails_ = 1;                 // local ranks of each host that talk to other hosts
  std::optional<NetworkReduce> network_;  // on those

  std::uint64_t operation_ = 0;
  std::uint64_t slots_used_ = 0;
  Deadline deadline_;
  std::size_t allocated_ = kReservedBytes;
  FloatArena heap_;  // for ranks that share no memory
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
  }
  PrepareLocalSums();
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

void NativeEngine::PrepareLocalSums() {
  for (const algo::TreeNode& node : NodesOfHost(options_.layout, hosts_[host_])) {
    LocalNode entry{.node = node};
    std::vector<algo::TreeNode> known;
    for (std::size_t local = 0; local < local_size_; ++local) {
      const auto nodes = options_.layout.NodesOf(hosts_[host_][local]);
      for (std::size_t part = 0; part < nodes.size(); ++part) {
        if (nodes[part].begin < node.begin || nodes[part].end > node.end) continue;
        entry.sources.emplace_back(local, part);
        known.push_back(nodes[part]);
      }
    }
    entry.sum.emplace(node, known);
    local_nodes_.push_back(std::move(entry));
  }
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
  {
    const MutexLock lock(failure_->mutex);
    if (!failure_->status.ok()) return failure_->status;
  }
  deadline_ = std::chrono::steady_clock::now() + options_.timeout;
  const Status status = operation();
  if (status.ok()) return status;
  failure_->Set(status);
  mesh_.Abort({.code = status.code(), .text = status.message()});
  const MutexLock lock(failure_->mutex);
  return failure_->status;
}

void NativeEngine::Abort(const Status& why) {
  failure_->Set(why);
  mesh_.Abort({.code = Code::kPeerLost,
               .blamed = rank().value(),
               .text = fmt::format("rank {} gave up: {}", rank().value(), why.message())});
}

Result<std::span<float>> NativeEngine::Allocate(std::size_t floats) {
  {
    const MutexLock lock(failure_->mutex);
    if (!failure_->status.ok()) return failure_->status;
  }
  const std::size_t bytes = (floats * sizeof(float) + kLine - 1) / kLine * kLine;
  if (local_ != nullptr && bytes <= local_->region_bytes() - allocated_) {
    const std::uint64_t offset = local_->RegionOffset(local_index_) + allocated_;
    allocated_ += bytes;
    return std::span(reinterpret_cast<float*>(local_->At(offset)), floats);
  }
  if (local_ != nullptr) {
    PACELINE_LOG(Warning, "shared memory for gradients is used up ({} MB); {} MB will be copied",
                 local_->region_bytes() >> 20, bytes >> 20);
  }
  return heap_.Allocate(floats);
}

std::optional<std::vector<std::uint64_t>> NativeEngine::OffsetsOf(
    std::span<const std::span<float>> parts) const {
  std::vector<std::uint64_t> offsets;
  for (const std::span<float> part : parts) {
    const auto offset = local_->OffsetOf(part.data(), part.size_bytes());
    if (!offset) return std::nullopt;
    offsets.push_back(*offset);
  }
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
  if (local_ == nullptr) {
    const MeshCall call = Call();
    return network_->AllReduce(pointers, count, call.operation, call.deadline);
  }
  const bool small = OneHost() && count * sizeof(float) * parts.size() <= kSmallBytes;
  // Whether memory is shared must be decided alike on all ranks; Allocate() is a collective call.
  const auto offsets = small ? std::nullopt : OffsetsOf(parts);
  if (offsets) return ReduceInPlace(*offsets, count, algo::Goal::kEverywhere);
  return OneHost() ? ReduceSmall(pointers, count) : ReduceStaged(pointers, count);
}

std::uint64_t NativeEngine::NextSlot(std::size_t index) const {
  return local_->RegionOffset(index) + slots_used_ % 2 * kSlotBytes;
}

// Every rank puts its parts into its slot and adds all of them itself.
Status NativeEngine::ReduceSmall(std::span<float* const> parts, std::size_t count) {
  const std::size_t most = [&] {
    std::size_t parts_of_any = 0;
    for (const Rank rank : hosts_[host_]) {
      parts_of_any = std::max(parts_of_any, options_.layout.NodesOf(rank).size());
    }
    return kSlotBytes / sizeof(float) / parts_of_any;
  }();
  LocalNode& node = local_nodes_.front();
  std::vector<const float*> sources(node.sources.size());
  for (std::size_t at = 0; at == 0 || at < count; at += most) {
    const std::size_t size = std::min(most, count - at);
    const LocalOperation operation{.kind = Kind::kReduce, .count = size};
    auto* slot = reinterpret_cast<float*>(local_->At(NextSlot(local_index_)));
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::copy_n(parts[part] + at, size, slot + part * size);
    }
    local_->Publish(operation);
    PACELINE_TRY(LocalBarrier());
    for (std::size_t i = 0; i < local_size_; ++i) {
      const auto theirs = local_->Read(i, operation, sizeof(float));
      if (!theirs.ok()) return theirs.status();
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto [local, part] = node.sources[i];
      sources[i] = reinterpret_cast<const float*>(local_->At(NextSlot(local))) + part * size;
    }
    float* const target[] = {parts[0] + at};
    node.sum->Run(sources, target, size);
    ++slots_used_;
  }
  return {};
}

// Foreign memory on its way to other hosts: piece by piece through the staging area.
Status NativeEngine::ReduceStaged(std::span<float* const> parts, std::size_t count) {
  const std::uint64_t stage = local_->RegionOffset(local_index_) + 2 * kSlotBytes;
  std::size_t parts_of_any = 1;
  for (std::uint64_t rank = 0; rank < world(); ++rank) {
    parts_of_any = std::max(parts_of_any, options_.layout.NodesOf(Rank(rank)).size());
  }
  const std::size_t most = kStageBytes / sizeof(float) / parts_of_any / 16 * 16;
  for (std::size_t at = 0; at == 0 || at < count; at += most) {
    const std::size_t size = std::min(most, count - at);
    std::vector<std::uint64_t> offsets;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      offsets.push_back(stage + part * most * sizeof(float));
      std::memcpy(local_->At(offsets.back()), parts[part] + at, size * sizeof(float));
    }
    PACELINE_TRY(ReduceInPlace(offsets, size, algo::Goal::kEverywhere));
    std::memcpy(parts[0] + at, local_->At(offsets[0]), size * sizeof(float));
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
Status NativeEngine::ReduceInPlace(std::span<const std::uint64_t> offsets, std::size_t count,
                                   algo::Goal goal) {
  PACELINE_ASSIGN(const auto local, Exchange(offsets, count));
  const algo::Slice slice = algo::SliceOf(count, local_size_, local_index_);
  for (LocalNode& node : local_nodes_) {
    std::vector<const float*> sources;
    for (const auto& [rank, part] : node.sources)
      sources.push_back(local[rank][part] + slice.begin);
    std::vector<float*> targets;
    if (OneHost() && goal == algo::Goal::kEverywhere) {
      for (const auto& pointers : local) targets.push_back(pointers[0] + slice.begin);
    } else if (OneHost()) {
      targets.push_back(local[local_index_][0] + slice.begin);
    } else {
      const auto [rank, part] = node.sources.front();
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
    for (const LocalNode& node : local_nodes_) {
      const auto [rank, part] = node.sources.front();
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
    if (local_ != nullptr && OneHost()) {
      if (const auto offsets = OffsetsOf(parts)) {
        return ReduceInPlace(*offsets, count, algo::Goal::kScatter);
      }
    }
    if (local_ == nullptr && !OneHost()) {
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
    const std::size_t block = blocks.size() / world();
    for (std::size_t at = 0; at == 0 || at < block; at += kSlotBytes) {
      const LocalOperation operation{.kind = Kind::kGather,
                                     .count = std::min(kSlotBytes, block - at)};
      std::memcpy(local_->At(NextSlot(local_index_)), blocks.data() + local_index_ * block + at,
                  operation.count);
      local_->Publish(operation);
      PACELINE_TRY(LocalBarrier());
      for (std::size_t i = 0; i < local_size_; ++i) {
        const auto theirs = local_->Read(i, operation, 1);
        if (!theirs.ok()) return theirs.status();
        if (i == local_index_) continue;
        std::memcpy(blocks.data() + i * block + at, local_->At(NextSlot(i)), operation.count);
      }
      ++slots_used_;
    }
    return {};
  });
}

Status NativeEngine::Broadcast(std::span<std::byte> bytes, Rank root) {
  return Guarded([&]() -> Status {
    PACELINE_TRY(CheckRoot(root, world()));
    if (world() == 1) return {};
    if (!OneHost()) return MeshBroadcast(mesh_, bytes, root, Call());
    const std::size_t from = root.value();  // one host: local ranks are the ranks
    for (std::size_t at = 0; at == 0 || at < bytes.size(); at += kSlotBytes) {
      const LocalOperation operation{.kind = Kind::kBroadcast,
                                     .count = std::min(kSlotBytes, bytes.size() - at)};
      if (local_index_ == from) {
        std::memcpy(local_->At(NextSlot(from)), bytes.data() + at, operation.count);
      }
      local_->Publish(operation);
      PACELINE_TRY(LocalBarrier());
      const auto theirs = local_->Read(from, operation, 1);
      if (!theirs.ok()) return theirs.status();
      if (local_index_ != from) {
        std::memcpy(bytes.data() + at, local_->At(NextSlot(from)), operation.count);
      }
      ++slots_used_;
    }
    return {};
  });
}

Status NativeEngine::Barrier() {
  return Guarded([&]() -> Status {
    if (world() == 1) return {};
    if (!OneHost()) return MeshBarrier(mesh_, Call());
    local_->Publish({.kind = Kind::kBarrier});
    PACELINE_TRY(LocalBarrier());
    const auto theirs = local_->Read((local_index_ + 1) % local_size_, {.kind = Kind::kBarrier}, 1);
    return theirs.ok() ? Status() : theirs.status();
  });
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
                           .deadline = std::chrono::steady_clock::now() + options.setup_timeout}));
  return std::unique_ptr<Engine>(std::make_unique<NativeEngine>(mesh, options, std::move(hosts)));
}

Traffic PredictAllReduceTraffic(const Engine& native, std::size_t count) {
  const auto* engine = dynamic_cast<const NativeEngine*>(&native);
  PACELINE_CHECK(engine != nullptr, "a native engine");
  return engine->Predict(count);
}

}  // namespace paceline::collective

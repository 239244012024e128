#include "collective/gloo_engine.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/config.h>
#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include "base/mutex.h"
#include "collective/engine_support.h"
#include "collective/internal/gloo_transport.h"
#include "kernel/reduce.h"

namespace paceline::collective {

namespace {

using std::chrono::milliseconds;

// All ranks connected with each other.
class Mesh final : public gloo::Context {
 public:
  Mesh(std::shared_ptr<gloo::transport::Device> device,
       std::shared_ptr<gloo::transport::Context> transport)
      : Context(transport->rank, transport->size) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
  }
};

std::string AddressesOf(gloo::transport::Context& transport) {
  std::string blob;
  for (int peer = 0; peer < transport.size; ++peer) {
    // The place of this rank itself holds zeros, so that all entries have the same size.
    const int other = peer == transport.rank ? (peer + 1) % transport.size : peer;
    std::vector<char> bytes = transport.getPair(other)->address().bytes();
    if (peer == transport.rank) std::fill(bytes.begin(), bytes.end(), '\0');
    blob.append(bytes.begin(), bytes.end());
  }
  return blob;
}

Status ConnectPairs(gloo::transport::Context& transport, const std::string& mine,
                    const BlobExchange& exchange) {
  PACELINE_ASSIGN(const std::vector<std::string> blobs, exchange(mine));
  const auto world = static_cast<std::size_t>(transport.size);
  const std::size_t entry = mine.size() / world;
  if (blobs.size() != world) {
    return Status::Error(Code::kProtocol,
                         fmt::format("{} ranks gave {} blobs of addresses", world, blobs.size()));
  }
  for (int peer = 0; peer < transport.size; ++peer) {
    if (peer == transport.rank) continue;
    const std::string& blob = blobs[static_cast<std::size_t>(peer)];
    if (blob.size() != mine.size()) {
      return Status::Error(Code::kProtocol, fmt::format("rank {} gave {} bytes of addresses "
                                                        "instead of {}",
                                                        peer, blob.size(), mine.size()));
    }
    const char* address = blob.data() + entry * static_cast<std::size_t>(transport.rank);
    transport.getPair(peer)->connect({address, address + entry});
  }
  return {};
}

// out = a + b; gloo calls it with out == a.
void Sum(void* out, const void* a, const void* b, std::size_t floats) {
  if (out != a) std::memcpy(out, a, floats * sizeof(float));
  kernel::AddInto({static_cast<float*>(out), floats}, {static_cast<const float*>(b), floats});
}

class GlooEngine final : public Engine {
 public:
  explicit GlooEngine(const GlooOptions& options) : options_(options) {}
  ~GlooEngine() override = default;
  Status Connect();

  const char* name() const override { return "gloo"; }
  Rank rank() const override { return options_.rank; }
  std::uint64_t world() const override { return options_.layout.world(); }
  const algo::ShardLayout& layout() const override { return options_.layout; }
  Status failure() const override { return failure_.Get(); }
  Result<std::span<float>> Allocate(std::size_t floats) override;
  Status AllReduce(std::span<const std::span<float>> parts) override;
  Status ReduceScatter(std::span<const std::span<float>> parts) override;
  Status AllGather(std::span<std::byte> blocks) override;
  Status Broadcast(std::span<std::byte> bytes, Rank root) override;
  Status Barrier() override;
  void Abort(const Status& why) override;

 private:
  template <typename Function>
  Status Run(const char* what, const Status& arguments, Function&& function);
  Status Translate(const char* what, std::exception_ptr error);
  std::vector<int> LostRanks();
  void ExchangeSlices(std::span<float> values);
  void CloseAll();

  const GlooOptions options_;
  FirstFailure failure_;
  FloatArena arena_;
  std::vector<float> scratch_;
  Interrupter interrupter_;     // outlives the buffers of mesh_
  std::shared_ptr<Mesh> mesh_;  // none for a single rank
  Mutex closing_;               // one caller closes at a time
};

Status GlooEngine::Connect() {
  if (world() == 1) return {};
  try {
    gloo::transport::tcp::attr where;
    where.hostname = options_.address;
    where.iface = options_.interface;
    auto device = gloo::transport::tcp::CreateDevice(where);
    auto transport =
        device->createContext(static_cast<int>(rank().value()), static_cast<int>(world()));
    // gloo waits five times as long for a connection.
    transport->setTimeout(std::max(milliseconds(1), options_.timeout / 5));
    for (int peer = 0; peer < transport->size; ++peer) {
      if (peer != transport->rank) transport->createPair(peer);
    }
    PACELINE_TRY(ConnectPairs(*transport, AddressesOf(*transport), options_.bootstrap));
    mesh_ = std::make_shared<Mesh>(
        device, std::make_shared<InterruptibleTransport>(transport, interrupter_));
    mesh_->setTimeout(options_.timeout);
    return {};
  } catch (const gloo::IoException& error) {
    return Status::Error(Code::kPeerLost, error.what());
  } catch (const std::exception& error) {
    return Status::Error(Code::kUnavailable, error.what());
  }
}

// The one place where gloo's exceptions become a Status.
template <typename Function>
Status GlooEngine::Run(const char* what, const Status& arguments, Function&& function) {
  PACELINE_TRY(failure_.Get());
  if (!arguments.ok()) {
    Status cause = failure_.Set(arguments.Wrap(what));
    CloseAll();
    return cause;
  }
  if (mesh_ == nullptr) return {};
  interrupter_.Start(std::chrono::steady_clock::now() + options_.timeout);
  try {
    function();
    return {};
  } catch (...) {
    Status cause = failure_.Set(Translate(what, std::current_exception()));
    CloseAll();
    return cause;
  }
}

Status GlooEngine::Translate(const char* what, std::exception_ptr error) {
  const std::string context = fmt::format("gloo rank {}: {}", rank().value(), what);
  try {
    std::rethrow_exception(std::move(error));
  } catch (const TimedOut&) {
    return Status::Error(Code::kTimeout,
                         fmt::format("{}: not done in {} ms", context, options_.timeout.count()));
  } catch (const Interrupted&) {
    return Status::Error(Code::kAborted, fmt::format("{}: interrupted", context));
  } catch (const gloo::IoException& io) {
    return Status::Error(Code::kPeerLost, fmt::format("{}: lost rank {}: {}", context,
                                                      fmt::join(LostRanks(), ", "), io.what()));
  } catch (const std::exception& other) {
    return Status::Error(Code::kInternal, fmt::format("{}: {}", context, other.what()));
  }
}

// Messages of gloo name an address. A connection that failed rethrows its error when it is used.
std::vector<int> GlooEngine::LostRanks() {
  std::vector<int> lost;
  char byte = 0;
  const auto probe = mesh_->createUnboundBuffer(&byte, sizeof(byte));
  const auto slot = gloo::Slot::build(0x71, 0);  // a prefix that gloo does not use
  for (int peer = 0; peer < mesh_->size; ++peer) {
    if (peer == mesh_->rank) continue;
    try {
      probe->recv(peer, slot, 0, sizeof(byte));
    } catch (const std::exception&) {
      lost.push_back(peer);
    }
  }
  return lost;
}

void GlooEngine::CloseAll() {
  if (mesh_ == nullptr) return;
  const MutexLock lock(closing_);
  for (int peer = 0; peer < mesh_->size; ++peer) {
    if (peer == mesh_->rank) continue;
    try {
      mesh_->getPair(peer)->close();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is broken already
    }
  }
}

Result<std::span<float>> GlooEngine::Allocate(std::size_t floats) {
  PACELINE_TRY(failure_.Get());
  return arena_.Allocate(floats);
}

Status GlooEngine::AllReduce(std::span<const std::span<float>> parts) {
  PACELINE_TRY(failure_.Get());
  return Run("all-reduce", SumParts(layout(), rank(), parts), [&] {
    if (parts[0].empty()) return;
    gloo::AllreduceOptions all(mesh_);
    all.setOutput(parts[0].data(), parts[0].size());
    all.setReduceFunction(Sum);
    gloo::allreduce(all);
  });
}

Status GlooEngine::ReduceScatter(std::span<const std::span<float>> parts) {
  PACELINE_TRY(failure_.Get());
  return Run("reduce-scatter", SumParts(layout(), rank(), parts),
             [&] { ExchangeSlices(parts[0]); });
}

// Each rank gets its slice from all others, at distance 1, 2, ... so that nobody is everybody's
// target at once.
void GlooEngine::ExchangeSlices(std::span<float> values) {
  const auto slice_of = [&](int of) {
    return algo::SliceOf(values.size(), world(), static_cast<std::size_t>(of));
  };
  const algo::Slice mine = slice_of(mesh_->rank);
  const auto slot = gloo::Slot::build(0x70, 0);  // a prefix that gloo does not use
  scratch_.resize(mine.size() * (world() - 1));
  auto source = mesh_->createUnboundBuffer(values.data(), values.size_bytes());
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> received;
  int sends = 0;
  for (int distance = 1; distance < mesh_->size; ++distance) {
    const int from = (mesh_->rank + mesh_->size - distance) % mesh_->size;
    const int to = (mesh_->rank + distance) % mesh_->size;
    float* place = scratch_.data() + static_cast<std::size_t>(distance - 1) * mine.size();
    received.push_back(mesh_->createUnboundBuffer(place, mine.size() * sizeof(float)));
    if (mine.size() > 0) received.back()->recv(from, slot, 0, received.back()->size);
    const algo::Slice theirs = slice_of(to);
    if (theirs.size() == 0) continue;
    source->send(to, slot, theirs.begin * sizeof(float), theirs.size() * sizeof(float));
    ++sends;
  }
  for (std::size_t i = 0; i < received.size() && mine.size() > 0; ++i) {
    received[i]->waitRecv();
    kernel::AddInto(values.subspan(mine.begin, mine.size()),
                    {scratch_.data() + i * mine.size(), mine.size()});
  }
  for (; sends > 0; --sends) source->waitSend();
}

Status GlooEngine::AllGather(std::span<std::byte> blocks) {
  return Run("all-gather", CheckBlocks(blocks.size(), world()), [&] {
    if (blocks.empty()) return;
    gloo::AllgatherOptions all(mesh_);
    all.setOutput(reinterpret_cast<char*>(blocks.data()), blocks.size());
    gloo::allgather(all);
  });
}

Status GlooEngine::Broadcast(std::span<std::byte> bytes, Rank root) {
  return Run("broadcast", CheckRoot(root, world()), [&] {
    if (bytes.empty()) return;
    gloo::BroadcastOptions all(mesh_);
    all.setOutput(reinterpret_cast<char*>(bytes.data()), bytes.size());
    all.setRoot(static_cast<int>(root.value()));
    gloo::broadcast(all);
  });
}

Status GlooEngine::Barrier() {
  return Run("barrier", {}, [&] {
    gloo::BarrierOptions all(mesh_);
    gloo::barrier(all);
  });
}

void GlooEngine::Abort(const Status& why) {
  if (why.ok() || !failure_.Get().ok()) return;
  static_cast<void>(failure_.Set(why));
  interrupter_.Raise();
  CloseAll();
}

}  // namespace

std::string GlooVersion() {
  return fmt::format("{}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
}

Result<std::unique_ptr<Engine>> MakeGlooEngine(const GlooOptions& options) {
  const std::uint64_t world = options.layout.world();
  PACELINE_TRY(CheckRoot(options.rank, world));
  if (world > 1 && !options.bootstrap) {
    return Status::Error(Code::kInvalidArgument, "several ranks need a bootstrap");
  }
  // Gloo writes to sockets that its peers may have closed, and means to see the error.
  ::signal(SIGPIPE, SIG_IGN);
  auto engine = std::make_unique<GlooEngine>(options);
  PACELINE_TRY(
      engine->Connect().Wrap(fmt::format("connecting gloo rank {}", options.rank.value())));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace paceline::collective

#include "ps/server.h"

#include <atomic>
#include <chrono>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "net/acceptor.h"
#include "ps/channel.h"
#include "ps/memory_offer.h"
#include "ps/protocol.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

// A pull that waits for other trainers is answered so often, so that whoever asks may give up.
constexpr std::chrono::milliseconds kLongestWait{500};

// One trainer's connection. The thread that calls Serve() owns it; acknowledgements are sent by
// the thread of the log.
class Session {
 public:
  Session(ServerCore& core, std::unique_ptr<net::Connection> connection)
      : core_(core), channel_(std::make_shared<Channel>(std::move(connection))) {}

  void Serve() {
    for (;;) {
      const auto message = channel_->Receive(kNoDeadline, arrival_);
      if (!message.ok()) return;  // the trainer comes back, or is done
      const Status served = Handle(*message);
      if (!served.ok()) channel_->SendSmall(message->kind, served, {});
      if (served.code() == Code::kProtocol) return channel_->Close();
    }
  }

  void Close() { channel_->Close(); }

 private:
  Status Handle(const Message& message) {
    switch (message.kind) {
      case MessageKind::kConfigure: return Configure(message.payload);
      case MessageKind::kInitialise: return Initialise(message.payload);
      case MessageKind::kNextBatch: return NextBatch(message.payload);
      case MessageKind::kPush: return Push(message);
      case MessageKind::kPull: return Pull(message.payload);
      case MessageKind::kPullChanged: return PullChanged(message.payload);
      case MessageKind::kShareMemory: return AcceptMemory(*channel_, message.payload);
      case MessageKind::kShareValues: return ShareValues();
    }
    return Status::Error(Code::kProtocol, "an unknown request");
  }

  Status Configure(std::span<const std::byte> payload) {
    PACELINE_ASSIGN(JobSpec spec, DecodeJobSpec(payload));
    PACELINE_TRY(core_.Configure(spec));
    spec_ = std::move(spec);
    const ServerStatus status = core_.StatusNow();
    dense_floats_ = static_cast<std::size_t>(status.dense_floats);
    AnswerNumbers(MessageKind::kConfigure, {status.initialised ? 1U : 0U});
    return {};
  }

  Status Initialise(std::span<const std::byte> payload) {
    if (payload.size() % sizeof(float) != 0) {
      return Status::Error(Code::kProtocol, "dense values that are not floats");
    }
    PACELINE_TRY(core_.Initialise(
        {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)}));
    AnswerNumbers(MessageKind::kInitialise, {});
    return {};
  }

  Status NextBatch(std::span<const std::byte> payload) {
    PACELINE_ASSIGN(const auto lease, DecodeNumbers(payload, 1));
    PACELINE_ASSIGN(const std::uint64_t next, core_.NextBatch(lease[0]));
    AnswerNumbers(MessageKind::kNextBatch, {next});
    return {};
  }

  Status Push(const Message& message) {
    const auto payload = message.payload;
    if (payload.size() < kPushNameBytes) return Status::Error(Code::kProtocol, "a nameless push");
    const std::vector<std::byte> name(payload.begin(), payload.begin() + kPushNameBytes);
    MessageBytes* const memory = channel_->PayloadMemory();
    const auto push = [&]() -> Result<ServerCore::Pushed> {
      if (message.owner != nullptr) return PushInPlace(message);
      if (memory == nullptr) return core_.Push(payload);
      return core_.Push(*memory, arriving_.DenseIsFinite());
    };
    PACELINE_ASSIGN(const ServerCore::Pushed pushed, push());
    core_.WhenDurable(pushed.record, [channel = channel_, name](const Status& status) {
      channel->SendSmall(MessageKind::kPush, status, name);
    });
    return {};
  }

  // What is applied at once is read where the trainer has written it, by the log too: the trainer
  // leaves it alone until it is acknowledged. One that does not spoils its own gradients.
  bool IsUsedInPlace(MessageKind kind) const {
    return kind == MessageKind::kPush && !spec_.WaitsForOthers();
  }
  // Ids are copied, because they are checked and then used.
  Result<ServerCore::Pushed> PushInPlace(const Message& message) {
    PACELINE_ASSIGN(ps::Push push, DecodePush(message.payload));
    std::vector<std::vector<std::int64_t>> ids;
    for (TablePart& part : push.tables) {
      part.ids = ids.emplace_back(part.ids.begin(), part.ids.end());
    }
    return core_.Push(push, {message.payload, message.owner}, arriving_.DenseIsFinite());
  }

  // The rows of all tables and the dense values, straight into the message.
  Status Pull(std::span<const std::byte> payload) {
    PACELINE_ASSIGN(const PullCall call, DecodePull(payload));
    std::size_t floats = 0;
    for (const PullCall::Rows& rows : call.rows) {
      if (rows.table >= spec_.tables.size()) {
        return Status::Error(Code::kProtocol, "a pull from a table that is not there");
      }
      floats += rows.ids.size() * spec_.tables[rows.table].options.dim;
    }
    const bool only_counts = call.dense && call.dense_is_mapped;
    const std::size_t dense = call.dense && !only_counts ? dense_floats_ : 0;
    const std::size_t end = only_counts ? kChangesBytes / sizeof(float) : 0;
    const std::span<float> answer =
        AnswerMemory(kPulledHeadBytes / sizeof(float) + floats + dense + end);
    std::span<float> free = answer.subspan(kPulledHeadBytes / sizeof(float));
    PullRequest request{.trainer = call.trainer,
                        .min_version = call.min_version,
                        .own_batches = call.own_batches,
                        .touch = call.touch,
                        .rows = {},
                        .dense = {},
                        .order = call.order};
    request.rows.reserve(call.rows.size());
    for (const PullCall::Rows& rows : call.rows) {
      const std::size_t count = rows.ids.size() * spec_.tables[rows.table].options.dim;
      request.rows.push_back({rows.table, rows.ids, free.first(count)});
      free = free.subspan(count);
    }
    request.dense = free.first(dense);
    return AnswerPull(request, std::as_writable_bytes(answer),
                      std::as_writable_bytes(free).subspan(dense * sizeof(float)));
  }

  // Dense floats are on their way while the next ones are copied. `changes`, the end of the answer
  // if it is not empty, tells how often they had changed.
  Status AnswerPull(const PullRequest& request, std::span<std::byte> answer,
                    std::span<std::byte> changes) {
    const auto until = std::chrono::steady_clock::now() + kLongestWait;
    const auto stopped = [&] {
      return channel_->closed() || std::chrono::steady_clock::now() >= until;
    };
    const std::size_t before_dense = answer.size() - request.dense.size_bytes();
    bool has_head = false;  // it is on its way with the first floats
    const auto write_head = [&](const PullAnswer& numbers) {
      if (std::exchange(has_head, true)) return;
      WritePulledHead(answer, {numbers.version, numbers.pushes[0]});
    };
    return channel_->SendWhileWritten(
        MessageKind::kPull, answer, [&](const Written& written) -> Status {
          const auto pulled =
              core_.Pull(request, stopped, [&](const PullAnswer& numbers, std::size_t floats) {
                write_head(numbers);
                written(before_dense + floats * sizeof(float));
              });
          if (!pulled.ok() && pulled.status().code() == Code::kAborted) {
            return Status::Error(Code::kTimeout, "not all trainers have come so far");
          }
          PACELINE_TRY(pulled.status());
          write_head(*pulled);
          if (!changes.empty()) {
            wire::StoreLittle(changes.data(), core_.DenseChanges(request, *pulled));
          }
          written(answer.size());
          return {};
        });
  }

  Status ShareValues() {
    const auto offer = core_.OfferDense();
    const MessageBytes answer = offer.ok() ? EncodeOffer(*offer) : MessageBytes();
    channel_->SendSmall(MessageKind::kShareValues, {}, AsBytes(answer));
    return {};
  }

  Status PullChanged(std::span<const std::byte> payload) {
    PACELINE_ASSIGN(const auto who, DecodeNumbers(payload, 3));
    if (who[1] >= spec_.tables.size()) {
      return Status::Error(Code::kProtocol, "changes of a table that is not there");
    }
    PACELINE_ASSIGN(const ChangedRows changed,
                    core_.PullChanged(who[0], static_cast<std::uint32_t>(who[1]), who[2]));
    return channel_->Send(MessageKind::kPullChanged, AsBytes(EncodeChanged(changed)));
  }

  // Shared with the trainer if possible: it has read the answer before when it asks again.
  std::span<float> AnswerMemory(std::size_t floats) {
    const auto shared = channel_->OutgoingArea(floats * sizeof(float));
    if (!shared.empty()) return {reinterpret_cast<float*>(shared.data()), floats};
    answer_.resize(floats);
    return answer_;
  }

  void AnswerNumbers(MessageKind kind, const std::vector<std::uint64_t>& numbers) {
    channel_->SendSmall(kind, {}, EncodeNumbers(numbers));
  }

  ServerCore& core_;
  const std::shared_ptr<Channel> channel_;
  JobSpec spec_;                  // once configured
  std::size_t dense_floats_ = 0;  // of this server, likewise
  std::vector<float> answer_;
  ArrivingPush arriving_;
  const Arrival arrival_{
      .watch =
          [this](MessageKind kind, std::span<const std::byte> so_far, std::size_t bytes) {
            if (kind == MessageKind::kPush) arriving_.See(so_far, bytes);
          },
      .in_place = [this](MessageKind kind) { return IsUsedInPlace(kind); }};
};

}  // namespace

class Server::Impl {
 public:
  explicit Impl(ServerCore& core) : core_(core) {}

  ~Impl() {
    acceptor_.reset();  // from here on nobody comes
    core_.Interrupt();
    std::list<Guest> guests;
    {
      const MutexLock lock(mutex_);
      guests.swap(guests_);
    }
    for (Guest& guest : guests) guest.session->Close();
    // The threads are joined here.
  }

  Status Start(net::Loop& loop, const ServerOptions& options) {
    PACELINE_ASSIGN(acceptor_, net::Acceptor::Listen(
                                   loop, {.bind = options.bind,
                                          .secret = options.secret,
                                          .self = {wire::Role::kServer, Rank(options.index)}}));
    acceptor_->Open({}, [this](std::unique_ptr<net::Connection> connection, const net::Identity&) {
      Add(std::move(connection));
    });
    return {};
  }

  net::Endpoint endpoint() const { return acceptor_->endpoint(); }

 private:
  struct Guest {
    std::shared_ptr<Session> session;
    std::shared_ptr<std::atomic<bool>> ended;
    std::jthread thread;
  };

  // On the loop.
  void Add(std::unique_ptr<net::Connection> connection) {
    const MutexLock lock(mutex_);
    std::erase_if(guests_, [](const Guest& guest) { return guest.ended->load(); });
    auto session = std::make_shared<Session>(core_, std::move(connection));
    auto ended = std::make_shared<std::atomic<bool>>(false);
    auto thread = StartThread("ps-session", [session, ended] {
      session->Serve();
      *ended = true;
    });
    guests_.push_back({std::move(session), std::move(ended), std::move(thread)});
  }

  ServerCore& core_;
  Mutex mutex_;
  std::list<Guest> guests_ PACELINE_GUARDED_BY(mutex_);
  std::unique_ptr<net::Acceptor> acceptor_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(net::Loop& loop, ServerCore& core,
                                              const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(core);
  PACELINE_TRY(impl->Start(loop, options));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

net::Endpoint Server::endpoint() const { return impl_->endpoint(); }

}  // namespace paceline::ps

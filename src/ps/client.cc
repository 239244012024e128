#include "ps/client.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "algo/table_partition.h"
#include "kernel/copy.h"
#include "ps/protocol.h"

namespace paceline::ps {

namespace {

// Whether the pieces, one after the other, are the whole buffer as it is.
bool AreAll(std::span<const DensePiece> pieces, std::size_t floats) {
  std::uint64_t end = 0;
  for (const DensePiece& piece : pieces) {
    if (piece.begin != end) return false;
    end += piece.count;
  }
  return end == floats;
}

// The blocks of one server, one after the other; in `memory` unless they lie like that already.
std::span<const float> GatherDense(std::span<const float> all, std::span<const DensePiece> pieces,
                                   std::vector<float>& memory) {
  if (AreAll(pieces, all.size())) return all;
  memory.clear();
  for (const DensePiece& piece : pieces) {
    const auto from =
        all.subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.count));
    memory.insert(memory.end(), from.begin(), from.end());
  }
  return memory;
}

// The values of those rows, one after the other, in `memory`.
std::span<const float> GatherRows(const TablePart& part, std::span<const std::size_t> places,
                                  std::vector<float>& memory) {
  memory.reserve(places.size() * part.dim);
  for (const std::size_t place : places) {
    const auto row = part.values.subspan(place * part.dim, part.dim);
    memory.insert(memory.end(), row.begin(), row.end());
  }
  return memory;
}

// Copies the dense floats of one server's answer to where they belong, as they arrive.
class DenseScatter {
 public:
  // They begin after `before` bytes of the answer.
  DenseScatter(std::span<const DensePiece> pieces, std::size_t before, std::span<float> all)
      : pieces_(pieces), before_(before), all_(all) {}

  // `answer` grows with each call; nothing: another one begins.
  void See(std::span<const std::byte> answer) {
    if (answer.empty()) done_ = 0;
    if (answer.size() <= before_) return;
    const std::size_t there = (answer.size() - before_) / sizeof(float);
    const auto* const dense = reinterpret_cast<const float*>(answer.data() + before_);
    std::size_t begin = 0;  // of the piece
    for (const DensePiece& piece : pieces_) {
      const std::size_t end = begin + static_cast<std::size_t>(piece.count);
      const std::size_t first = std::max(begin, done_), last = std::min(end, there);
      if (first < last) {
        kernel::CopyPart(
            all_.subspan(static_cast<std::size_t>(piece.begin) + first - begin, last - first),
            {dense + first, last - first}, all_.size_bytes());
      }
      begin = end;
    }
    done_ = there;
  }

 private:
  const std::span<const DensePiece> pieces_;
  const std::size_t before_;
  const std::span<float> all_;
  std::size_t done_ = 0;  // floats
};

}  // namespace

Client::Client(const ClientOptions& options) : job_(options.job) {
  pieces_.reserve(options.servers.size());
  for (std::size_t i = 0; i < options.servers.size(); ++i) {
    pieces_.push_back(DensePiecesOf(job_, options.servers.size(), i));
  }
}

Result<std::unique_ptr<Client>> Client::Connect(net::Loop& loop, const ClientOptions& options) {
  PACELINE_TRY(CheckJobSpec(options.job));
  if (options.servers.empty()) {
    return Status::Error(Code::kInvalidArgument, "no parameter server is named");
  }
  std::unique_ptr<Client> client(new Client(options));
  const std::vector<std::byte> job = EncodeJobSpec(options.job);
  for (std::size_t i = 0; i < options.servers.size(); ++i) {
    PACELINE_ASSIGN(
        auto link,
        ServerLink::Connect(
            loop,
            {.server = options.servers[i],
             .name = fmt::format("server {} ({})", i, options.servers[i].ToString()),
             .secret = options.secret,
             .trainer = options.trainer,
             .job = job,
             .away = options.away,
             .shared_memory = options.shared_memory,
             .dense_bytes = static_cast<std::size_t>(client->DenseFloatsOf(i) * sizeof(float)),
             .stopped = options.stopped}));
    client->links_.push_back(std::move(link));
  }
  return client;
}

Status Client::Initialise(std::span<const float> dense) {
  if (dense.size() != job_.DenseFloats()) {
    return Status::Error(Code::kInvalidArgument, "as many first values as dense floats");
  }
  const MutexLock lock(asking_);
  std::vector<float> part;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->initialised()) continue;
    const auto first = std::as_bytes(GatherDense(dense, pieces_[i], part));
    PACELINE_TRY(links_[i]->Ask(MessageKind::kInitialise, first));
    PACELINE_TRY(links_[i]->Await([](std::span<const std::byte>) { return Status(); }));
  }
  return {};
}

Result<std::uint64_t> Client::NextBatch(std::uint64_t lease) {
  const MutexLock lock(asking_);
  std::uint64_t next = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::byte> request = EncodeNumbers({&lease, 1});
  for (const auto& link : links_) {
    PACELINE_TRY(link->Ask(MessageKind::kNextBatch, request));
    PACELINE_TRY(link->Await([&](std::span<const std::byte> payload) -> Status {
      PACELINE_ASSIGN(const auto numbers, DecodeNumbers(payload, 1));
      next = std::min(next, numbers[0]);
      return {};
    }));
  }
  return next;
}

std::vector<Client::Share> Client::Split(std::span<const std::int64_t> ids) const {
  std::vector<Share> shares(links_.size());
  if (shares.size() == 1) {
    shares.front().whole = true;
    shares.front().ids = ids;
    return shares;
  }
  for (Share& share : shares) {
    share.own.reserve(ids.size() / links_.size() + 1);
    share.places.reserve(ids.size() / links_.size() + 1);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Share& share = shares[algo::ServerOf(ids[i], static_cast<std::uint32_t>(links_.size()))];
    share.own.push_back(ids[i]);
    share.places.push_back(i);
  }
  for (Share& share : shares) share.ids = share.own;
  return shares;
}

std::uint64_t Client::DenseFloatsOf(std::size_t server) const {
  return std::transform_reduce(pieces_[server].begin(), pieces_[server].end(), std::uint64_t{0},
                               std::plus<>(), [](const DensePiece& piece) { return piece.count; });
}

std::vector<Client::Part> Client::SplitPull(const PullRequest& request) const {
  std::vector<Part> parts(links_.size());
  for (const RowsWanted& wanted : request.rows) {
    std::vector<Share> shares = Split(wanted.ids);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].floats += shares[i].ids.size() * Dim(wanted.table);
      parts[i].shares.push_back(std::move(shares[i]));
    }
  }
  for (std::size_t i = 0; i < parts.size() && !request.dense.empty(); ++i) {
    parts[i].floats += static_cast<std::size_t>(DenseFloatsOf(i));
  }
  return parts;
}

void Client::Scatter(std::span<const float> from, const Share& share, std::size_t dim,
                     std::span<float> to) {
  if (share.whole) std::ranges::copy(from.first(to.size()), to.begin());
  for (const std::size_t place : share.places) {
    std::ranges::copy(from.first(dim), to.begin() + static_cast<std::ptrdiff_t>(place * dim));
    from = from.subspan(dim);
  }
}

Result<PullAnswer> Client::Pull(const PullRequest& request) {
  for (const RowsWanted& wanted : request.rows) {
    if (wanted.table >= job_.tables.size() ||
        wanted.out.size() != wanted.ids.size() * Dim(wanted.table)) {
      return Status::Error(Code::kInvalidArgument, "rows of a table that is not there");
    }
  }
  const std::vector<Part> parts = SplitPull(request);
  PullAnswer answer{.version = std::numeric_limits<std::uint64_t>::max(),
                    .pushes = std::vector<std::uint64_t>(links_.size())};
  const MutexLock lock(asking_);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    PullCall call{.trainer = request.trainer,
                  .min_version = request.min_version,
                  .own_batches = request.own_batches,
                  .touch = request.touch,
                  .dense = !request.dense.empty(),
                  .rows = {}};
    call.rows.reserve(request.rows.size());
    for (std::size_t t = 0; t < request.rows.size(); ++t) {
      call.rows.push_back({request.rows[t].table, parts[i].shares[t].ids});
    }
    PACELINE_TRY(links_[i]->Ask(MessageKind::kPull, AsBytes(EncodePull(call))));
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::size_t dense_floats =
        request.dense.empty() ? 0 : static_cast<std::size_t>(DenseFloatsOf(i));
    DenseScatter dense(pieces_[i],
                       kPulledHeadBytes + (parts[i].floats - dense_floats) * sizeof(float),
                       request.dense);
    const auto watch = [&](MessageKind, std::span<const std::byte> so_far, std::size_t) {
      if (dense_floats > 0) dense.See(so_far);
    };
    const auto use = [&](std::span<const std::byte> payload) -> Status {
      PACELINE_ASSIGN(const Pulled pulled, DecodePulled(payload, parts[i].floats));
      std::span<const float> floats = pulled.floats;
      for (std::size_t t = 0; t < request.rows.size(); ++t) {
        const std::size_t dim = Dim(request.rows[t].table);
        Scatter(floats, parts[i].shares[t], dim, request.rows[t].out);
        floats = floats.subspan(parts[i].shares[t].ids.size() * dim);
      }
      if (dense_floats > 0) dense.See(payload);
      answer.version = std::min(answer.version, pulled.numbers.version);
      answer.pushes[i] = pulled.numbers.pushes;
      return {};
    };
    PACELINE_TRY(links_[i]->Await(use, watch));
  }
  return answer;
}

// The rows of each server, without dense floats.
Status Client::ForEachShare(const ps::Push& push, std::span<const std::uint64_t> pulled,
                            const PushOne& use) const {
  std::vector<std::vector<Share>> shares;  // by table part
  shares.reserve(push.tables.size());
  for (const TablePart& part : push.tables) shares.push_back(Split(part.ids));
  for (std::size_t i = 0; i < links_.size(); ++i) {
    ps::Push mine = push;
    mine.dense = {};
    mine.version = i < pulled.size() ? pulled[i] : kVersionUnknown;
    std::vector<std::vector<float>> values(push.tables.size());
    for (std::size_t t = 0; t < push.tables.size(); ++t) {
      const Share& share = shares[t][i];
      if (share.whole) continue;  // all of it, as it lies
      mine.tables[t].ids = share.ids;
      mine.tables[t].values = GatherRows(push.tables[t], share.places, values[t]);
    }
    PACELINE_TRY(use(i, mine));
  }
  return {};
}

Status Client::Push(const ps::Push& push, std::span<const std::uint64_t> pulled) {
  std::vector<float> dense;
  return ForEachShare(push, pulled, [&](std::size_t server, ps::Push mine) {
    if (!push.dense.empty()) mine.dense = GatherDense(push.dense, pieces_[server], dense);
    return links_[server]->Push(mine);
  });
}

// Cuts the dense floats into those of each server as they come.
class Client::SplitPush final : public OpenPush {
 public:
  explicit SplitPush(Client& client) : client_(client) {}
  ~SplitPush() override {
    for (std::size_t i = 0; i < next_.size(); ++i) client_.links_[i]->CancelPush();
  }
  SplitPush(const SplitPush&) = delete;
  SplitPush& operator=(const SplitPush&) = delete;

  Status Begin(const ps::Push& push, std::span<const std::uint64_t> pulled) {
    return client_.ForEachShare(push, pulled, [&](std::size_t server, const ps::Push& mine) {
      const auto floats = static_cast<std::size_t>(client_.DenseFloatsOf(server));
      PACELINE_TRY(client_.links_[server]->BeginPush(mine, floats));
      next_.push_back(0);
      return Status();
    });
  }

  void Append(std::span<const float> floats) override {
    const std::uint64_t end = at_ + floats.size();
    for (std::size_t i = 0; i < next_.size(); ++i) {
      const std::vector<DensePiece>& pieces = client_.pieces_[i];
      for (; next_[i] < pieces.size() && pieces[next_[i]].begin < end; ++next_[i]) {
        const DensePiece& piece = pieces[next_[i]];
        const std::uint64_t from = std::max(at_, piece.begin);
        const std::uint64_t to = std::min(end, piece.begin + piece.count);
        client_.links_[i]->AppendDense(floats.subspan(static_cast<std::size_t>(from - at_),
                                                      static_cast<std::size_t>(to - from)));
        if (to < piece.begin + piece.count) break;  // the rest comes with the next ones
      }
    }
    at_ = end;
  }

  Status Finish() override {
    const std::size_t begun = next_.size();
    next_.clear();  // from here on nothing can be taken back
    Status first;
    for (std::size_t i = 0; i < begun; ++i) {
      const Status ended = client_.links_[i]->EndPush();
      if (first.ok()) first = ended;
    }
    return first;
  }

 private:
  Client& client_;
  std::vector<std::size_t> next_;  // piece, by server
  std::uint64_t at_ = 0;           // floats so far
};

Result<std::unique_ptr<OpenPush>> Client::Open(const ps::Push& push,
                                               std::span<const std::uint64_t> pulled) {
  auto open = std::make_unique<SplitPush>(*this);
  PACELINE_TRY(open->Begin(push, pulled));
  return std::unique_ptr<OpenPush>(std::move(open));
}

Status Client::Flush() {
  for (const auto& link : links_) PACELINE_TRY(link->Flush());
  return {};
}

std::uint64_t Client::Acknowledged(std::uint64_t lease) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& link : links_) least = std::min(least, link->Acknowledged(lease));
  return least;
}

Result<ChangedRows> Client::PullChanged(std::uint64_t trainer, std::uint32_t table,
                                        std::uint64_t call) {
  if (table >= job_.tables.size()) {
    return Status::Error(Code::kInvalidArgument, "changes of a table that is not there");
  }
  const MutexLock lock(asking_);
  ChangedRows all;
  const std::vector<std::byte> request =
      EncodeNumbers(std::vector<std::uint64_t>{trainer, table, call});
  for (const auto& link : links_) PACELINE_TRY(link->Ask(MessageKind::kPullChanged, request));
  for (const auto& link : links_) {
    PACELINE_TRY(link->Await([&](std::span<const std::byte> payload) -> Status {
      PACELINE_ASSIGN(const ChangedRows changed, DecodeChanged(payload, Dim(table)));
      all.restarted = all.restarted || changed.restarted;
      all.ids.insert(all.ids.end(), changed.ids.begin(), changed.ids.end());
      all.values.insert(all.values.end(), changed.values.begin(), changed.values.end());
      return {};
    }));
  }
  if (all.restarted) return ChangedRows{.restarted = true, .ids = {}, .values = {}};
  return all;
}

}  // namespace paceline::ps

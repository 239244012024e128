#include "ps/client.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "algo/table_partition.h"
#include "base/thread.h"
#include "ps/dense_parts.h"
#include "ps/protocol.h"

namespace paceline::ps {

namespace {

bool IsSame(const RowsWanted& a, const RowsWanted& b) {
  return a.table == b.table && a.ids.data() == b.ids.data() && a.ids.size() == b.ids.size() &&
         a.out.data() == b.out.data();
}

// Of spans, the same memory.
bool IsSame(const PullRequest& a, const PullRequest& b) {
  return a.trainer == b.trainer && a.min_version == b.min_version &&
         a.own_batches == b.own_batches && a.touch == b.touch && a.order == b.order &&
         a.dense.data() == b.dense.data() && a.dense.size() == b.dense.size() &&
         std::ranges::equal(a.rows, b.rows, [](const RowsWanted& one, const RowsWanted& other) {
           return IsSame(one, other);
         });
}

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
             .stopped = options.stopped,
             .stop_grace = options.stop_grace}));
    client->links_.push_back(std::move(link));
  }
  return client;
}

Status Client::Initialise(std::span<const float> dense) {
  if (dense.size() != job_.DenseFloats()) {
    return Status::Error(Code::kInvalidArgument, "as many first values as dense floats");
  }
  const MutexLock lock(asking_);
  announced_.reset();
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
  announced_.reset();
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
  return CountFloats(pieces_[server]);
}

std::vector<Client::Part> Client::SplitPull(const PullRequest& request) const {
  std::vector<Part> parts(links_.size());
  for (const RowsWanted& wanted : request.rows) {
    std::vector<Share> shares = Split(wanted.ids);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].rows += shares[i].ids.size() * Dim(wanted.table);
      parts[i].shares.push_back(std::move(shares[i]));
    }
  }
  for (std::size_t i = 0; i < parts.size() && !request.dense.empty(); ++i) {
    parts[i].dense = links_[i]->values() == nullptr ? DenseFrom::kAnswer : DenseFrom::kMemory;
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

Result<std::vector<Client::Part>> Client::AskForPull(const PullRequest& request) {
  for (const RowsWanted& wanted : request.rows) {
    if (wanted.table >= job_.tables.size() ||
        wanted.out.size() != wanted.ids.size() * Dim(wanted.table)) {
      return Status::Error(Code::kInvalidArgument, "rows of a table that is not there");
    }
  }
  std::vector<Part> parts = SplitPull(request);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    PACELINE_TRY(
        links_[i]->Ask(MessageKind::kPull, AsBytes(EncodePull(CallOf(request, parts[i])))));
  }
  return parts;
}

Status Client::Announce(const PullRequest& request) {
  const MutexLock lock(asking_);
  announced_.reset();
  PACELINE_ASSIGN(auto parts, AskForPull(request));
  announced_ = {request, std::move(parts)};
  return {};
}

Result<PullAnswer> Client::Pull(const PullRequest& request) {
  PullAnswer answer{.version = std::numeric_limits<std::uint64_t>::max(),
                    .pushes = std::vector<std::uint64_t>(links_.size())};
  const MutexLock lock(asking_);
  std::optional<Announced> announced = std::exchange(announced_, std::nullopt);
  std::vector<Part> parts;
  if (announced && IsSame(announced->request, request)) {
    parts = std::move(announced->parts);
  } else {
    PACELINE_ASSIGN(parts, AskForPull(request));
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    PACELINE_ASSIGN(const bool has_dense, AwaitPulled(i, request, parts[i], answer));
    if (has_dense) continue;
    PullRequest again = request;
    again.rows.clear();
    const Part copied{.shares = {}, .rows = 0, .dense = DenseFrom::kAnswer};
    PACELINE_TRY(links_[i]->Ask(MessageKind::kPull, AsBytes(EncodePull(CallOf(again, copied)))));
    PACELINE_TRY(AwaitPulled(i, again, copied, answer).status());
  }
  return answer;
}

Result<PullAnswer> Client::PullArriving(const PullRequest& request, const TakeDense& take) {
  const bool is_mapped = std::ranges::all_of(
      links_, [](const std::unique_ptr<ServerLink>& link) { return link->values() != nullptr; });
  // One copy is over too soon to compute meanwhile.
  if (is_mapped) return Store::PullArriving(request, take);
  const PullCall call{.trainer = request.trainer,
                      .min_version = request.min_version,
                      .own_batches = request.own_batches,
                      .touch = request.touch,
                      .dense = true,
                      .order = DenseOrder::kFromLast,
                      .rows = {}};
  const MutexLock lock(asking_);
  announced_.reset();
  for (const auto& link : links_) {
    PACELINE_TRY(link->Ask(MessageKind::kPull, AsBytes(EncodePull(call))));
  }
  // What is wanted first may be anywhere, so all answers are taken in at the same time.
  std::vector<Result<PulledNumbers>> numbers(links_.size(), PulledNumbers{});
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < links_.size(); ++i) {
      others.push_back(StartThread("ps-pull", [&, i] { numbers[i] = AwaitArriving(i, take); }));
    }
    numbers[0] = AwaitArriving(0, take);
  }
  PullAnswer answer{.version = std::numeric_limits<std::uint64_t>::max(), .pushes = {}};
  for (const Result<PulledNumbers>& one : numbers) {
    PACELINE_TRY(one.status());
    answer.version = std::min(answer.version, one->version);
    answer.pushes.push_back(one->pushes);
  }
  return answer;
}

Result<PulledNumbers> Client::AwaitArriving(std::size_t server, const TakeDense& take) {
  ArrivingFloats dense(PiecesInOrder(pieces_[server], DenseOrder::kFromLast), kPulledHeadBytes,
                       take);
  Arrival arrival;
  arrival.watch = [&](MessageKind, std::span<const std::byte> so_far, std::size_t) {
    dense.See(so_far);
  };
  PulledNumbers numbers;
  const auto use = [&](std::span<const std::byte> payload) -> Status {
    PACELINE_ASSIGN(const Pulled pulled,
                    DecodePulled(payload, static_cast<std::size_t>(DenseFloatsOf(server))));
    dense.See(payload);
    numbers = pulled.numbers;
    return {};
  };
  PACELINE_TRY(links_[server]->Await(use, arrival));
  return numbers;
}

PullCall Client::CallOf(const PullRequest& request, const Part& part) {
  PullCall call{.trainer = request.trainer,
                .min_version = request.min_version,
                .own_batches = request.own_batches,
                .touch = request.touch,
                .dense = part.dense != DenseFrom::kNowhere,
                .dense_is_mapped = part.dense == DenseFrom::kMemory,
                .rows = {}};
  call.rows.reserve(request.rows.size());
  for (std::size_t t = 0; t < request.rows.size(); ++t) {
    call.rows.push_back({request.rows[t].table, part.shares[t].ids});
  }
  return call;
}

// Of one server. False: its values have changed while they were read.
Result<bool> Client::AwaitPulled(std::size_t server, const PullRequest& request, const Part& part,
                                 PullAnswer& answer) {
  const bool is_mapped = part.dense == DenseFrom::kMemory;
  DenseScatter dense(pieces_[server], kPulledHeadBytes + part.rows * sizeof(float), request.dense);
  Arrival arrival;
  if (part.dense == DenseFrom::kAnswer) {
    arrival.watch = [&](MessageKind, std::span<const std::byte> so_far, std::size_t) {
      dense.See(so_far);
    };
    arrival.place = [&](std::size_t begin, std::size_t count, std::size_t bytes) {
      return dense.Place(begin, count, bytes);
    };
  }
  std::uint64_t changes = kBeingChanged;
  const auto use = [&](std::span<const std::byte> payload) -> Status {
    if (is_mapped) {
      PACELINE_ASSIGN(changes, TakeChanges(payload));
    }
    const std::size_t dense_floats =
        part.dense == DenseFrom::kAnswer ? static_cast<std::size_t>(DenseFloatsOf(server)) : 0;
    PACELINE_ASSIGN(const Pulled pulled,
                    DecodePulled(payload, part.rows + dense_floats - dense.placed()));
    std::span<const float> floats = pulled.floats;
    for (std::size_t t = 0; t < request.rows.size(); ++t) {
      const std::size_t dim = Dim(request.rows[t].table);
      Scatter(floats, part.shares[t], dim, request.rows[t].out);
      floats = floats.subspan(part.shares[t].ids.size() * dim);
    }
    if (dense_floats > 0) dense.See(payload);
    answer.version = std::min(answer.version, pulled.numbers.version);
    answer.pushes[server] = pulled.numbers.pushes;
    return {};
  };
  PACELINE_TRY(links_[server]->Await(use, arrival));
  if (!is_mapped) return true;
  const FloatsReader* const values = links_[server]->values();
  if (values == nullptr || !values->IsStill(changes)) return false;
  ReadDense(*values, pieces_[server], request.dense);
  return values->IsStill(changes);
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
  announced_.reset();
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

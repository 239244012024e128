// What a trainer pushes, cut into the parts of its servers.
#include <algorithm>
#include <utility>

#include "ps/client.h"
#include "ps/dense_parts.h"

namespace paceline::ps {

namespace {

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

}  // namespace

// The rows of each server, without dense floats.
Status Client::ForEachShare(const ps::Push& push, std::span<const std::uint64_t> pulled,
                            const PushOne& use) {
  const bool save = save_.exchange(false);
  std::vector<std::vector<Share>> shares;  // by table part
  shares.reserve(push.tables.size());
  for (const TablePart& part : push.tables) shares.push_back(Split(part.ids));
  for (std::size_t i = 0; i < links_.size(); ++i) {
    ps::Push mine = push;
    mine.dense = {};
    mine.save = save;
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
    if (!next_.empty() && saves_) client_.SaveWithNextPush();  // this one never was
    for (std::size_t i = 0; i < next_.size(); ++i) client_.links_[i]->CancelPush();
  }
  SplitPush(const SplitPush&) = delete;
  SplitPush& operator=(const SplitPush&) = delete;

  Status Begin(const ps::Push& push, std::span<const std::uint64_t> pulled) {
    return client_.ForEachShare(push, pulled, [&](std::size_t server, const ps::Push& mine) {
      const auto floats = static_cast<std::size_t>(client_.DenseFloatsOf(server));
      saves_ = mine.save;
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
  bool saves_ = false;             // Push::save
};

Result<std::unique_ptr<OpenPush>> Client::Open(const ps::Push& push,
                                               std::span<const std::uint64_t> pulled) {
  auto open = std::make_unique<SplitPush>(*this);
  PACELINE_TRY(open->Begin(push, pulled));
  return std::unique_ptr<OpenPush>(std::move(open));
}

}  // namespace paceline::ps

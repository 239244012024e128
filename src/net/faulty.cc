#include "net/faulty.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace paceline::net {

namespace {

class FaultyStream final : public ByteStream {
 public:
  FaultyStream(Loop& loop, std::unique_ptr<ByteStream> inner, const StreamFaults& faults)
      : loop_(loop), inner_(std::move(inner)), faults_(faults), random_(faults.seed) {
    loop.AtEnd([weak = std::weak_ptr(delayed_)] {
      if (const auto alive = weak.lock()) *alive = nullptr;
    });
  }

  void ReadOnLoop(std::span<std::byte> into, Done done) override {
    inner_->ReadOnLoop(into, std::move(done));
  }

  void WriteOnLoop(const Pieces& pieces, Done done) override {
    bytes_.assign(pieces[0].begin(), pieces[0].end());
    bytes_.insert(bytes_.end(), pieces[1].begin(), pieces[1].end());
    const std::uint64_t write = writes_++;
    FlipBit();
    if (write == faults_.drop_write) return Answer(std::move(done));
    if (write == faults_.swap_write) {
      held_ = std::move(bytes_);
      return Answer(std::move(done));
    }
    bytes_.insert(bytes_.end(), held_.begin(), held_.end());
    held_.clear();
    const auto jitter =
        std::chrono::duration_cast<std::chrono::nanoseconds>(faults_.jitter * random_.Uniform());
    if (faults_.delay + jitter == std::chrono::nanoseconds(0)) return Deliver(std::move(done));
    *delayed_ = std::move(done);
    timer_ = loop_.AfterOnLoop(faults_.delay + jitter, [this] { DeliverDelayed(); });
  }

  void ShutdownWriteOnLoop() override { inner_->ShutdownWriteOnLoop(); }
  void CloseOnLoop() override {
    inner_->CloseOnLoop();
    timer_.reset();
    DeliverDelayed();  // into the closed stream: an answer all the same
  }
  StreamUse UseOnLoop() const override { return inner_->UseOnLoop(); }
  std::string peer() const override { return inner_->peer(); }

 private:
  void DeliverDelayed() {
    if (Done done = std::exchange(*delayed_, nullptr)) Deliver(std::move(done));
  }

  void Answer(Done done) {
    loop_.Post([done = std::move(done)] { done({}); });
  }

  void FlipBit() {
    if (!faults_.flip_bit_at || *faults_.flip_bit_at < offered_ ||
        *faults_.flip_bit_at >= offered_ + bytes_.size()) {
      offered_ += bytes_.size();
      return;
    }
    bytes_[*faults_.flip_bit_at - offered_] ^= std::byte{1};
    offered_ += bytes_.size();
  }

  void Deliver(Done done) {
    const std::uint64_t limit = faults_.cut_after_bytes.value_or(~std::uint64_t{0});
    const std::uint64_t allowed = limit - std::min(limit, written_);
    const std::size_t count = std::min<std::uint64_t>(bytes_.size(), allowed);
    const bool cut = count < bytes_.size();
    written_ += count;
    inner_->WriteOnLoop(
        {std::span<const std::byte>(bytes_).first(count), {}},
        [this, cut, done = std::move(done)](const Status& status) {
          if (cut) inner_->CloseOnLoop();
          done(cut ? Status::Error(Code::kPeerLost, "cut by the fault plan") : status);
        });
  }

  Loop& loop_;
  std::unique_ptr<ByteStream> inner_;
  StreamFaults faults_;
  CounterRng random_;
  std::vector<std::byte> bytes_, held_;
  std::uint64_t writes_ = 0, offered_ = 0, written_ = 0;
  std::unique_ptr<Loop::Timer> timer_;
  std::shared_ptr<Done> delayed_ = std::make_shared<Done>();  // until the timer
};

}  // namespace

std::unique_ptr<ByteStream> MakeFaulty(Loop& loop, std::unique_ptr<ByteStream> inner,
                                       const StreamFaults& faults) {
  return std::make_unique<FaultyStream>(loop, std::move(inner), faults);
}

}  // namespace paceline::net

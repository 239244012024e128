#include "net/inproc.h"

#include <algorithm>
#include <deque>

#include "base/check.h"

namespace paceline::net {

namespace {

// A writer is held up while the reader is this far behind, as by a socket's buffer.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

Status Aborted() { return Status::Error(Code::kAborted, "the connection was closed on this side"); }

// One direction. Loop-confined.
class Pipe {
 public:
  explicit Pipe(Loop& loop) : loop_(loop) {}

  void Write(const ByteStream::Pieces& pieces, ByteStream::Done done) {
    if (reader_gone_) {
      return Answer(std::move(done), Status::Error(Code::kPeerLost, "the other end is closed"));
    }
    for (const auto& piece : pieces) bytes_.insert(bytes_.end(), piece.begin(), piece.end());
    writer_ = std::move(done);
    Advance();
  }

  void Read(std::span<std::byte> into, ByteStream::Done done) {
    PACELINE_CHECK(!reader_, "one read at a time");
    into_ = into;
    got_ = 0;
    reader_ = std::move(done);
    Advance();
  }

  // The loop is gone: what waits here is not answered any more.
  void Drop() {
    reader_ = nullptr;
    writer_ = nullptr;
  }

  void EndOfWriting() {
    ended_ = true;
    Advance();
  }

  // The end that writes is closed on its own side.
  void CloseWriter() {
    if (writer_) Answer(std::exchange(writer_, nullptr), Aborted());
    EndOfWriting();
  }

  void CloseReader() {
    reader_gone_ = true;
    bytes_.clear();
    if (reader_) Answer(std::exchange(reader_, nullptr), Aborted());
    if (writer_) {
      Answer(std::exchange(writer_, nullptr),
             Status::Error(Code::kPeerLost, "the other end is closed"));
    }
  }

 private:
  void Answer(ByteStream::Done done, Status status) {
    loop_.Post([done = std::move(done), status = std::move(status)] { done(status); });
  }

  void Advance() {
    if (reader_) {
      const std::size_t count = std::min(bytes_.size(), into_.size() - got_);
      const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(count);
      std::copy(bytes_.begin(), end, into_.begin() + static_cast<std::ptrdiff_t>(got_));
      bytes_.erase(bytes_.begin(), end);
      got_ += count;
      if (got_ == into_.size()) {
        Answer(std::exchange(reader_, nullptr), {});
      } else if (ended_) {
        Answer(std::exchange(reader_, nullptr),
               got_ == 0 ? Status::Error(Code::kNotFound, "the other end closed the connection")
                         : Status::Error(Code::kPeerLost, "the connection ended inside a message"));
      }
    }
    if (writer_ && bytes_.size() <= kBufferBytes) Answer(std::exchange(writer_, nullptr), {});
  }

  Loop& loop_;
  std::deque<std::byte> bytes_;
  bool ended_ = false;
  bool reader_gone_ = false;
  std::span<std::byte> into_;
  std::size_t got_ = 0;
  ByteStream::Done reader_;
  ByteStream::Done writer_;
};

class InprocStream final : public ByteStream {
 public:
  InprocStream(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out)
      : in_(std::move(in)), out_(std::move(out)) {}

  void ReadOnLoop(std::span<std::byte> into, Done done) override {
    in_->Read(into, std::move(done));
  }
  void WriteOnLoop(const Pieces& pieces, Done done) override {
    out_->Write(pieces, std::move(done));
  }
  void ShutdownWriteOnLoop() override { out_->EndOfWriting(); }
  void CloseOnLoop() override {
    in_->CloseReader();
    out_->CloseWriter();
  }
  std::string peer() const override { return "in-process peer"; }

 private:
  std::shared_ptr<Pipe> in_, out_;
};

}  // namespace

std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>> MakeInprocPair(Loop& loop) {
  const auto there = std::make_shared<Pipe>(loop), back = std::make_shared<Pipe>(loop);
  for (const auto& pipe : {there, back}) {
    loop.AtEnd([weak = std::weak_ptr(pipe)] {
      if (const auto alive = weak.lock()) alive->Drop();
    });
  }
  return {std::make_unique<InprocStream>(back, there), std::make_unique<InprocStream>(there, back)};
}

}  // namespace paceline::net

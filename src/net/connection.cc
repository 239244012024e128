#include "net/connection.h"

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "net/internal/on_loop.h"
#include "wire/crc32c.h"

namespace paceline::net {

using wire::FrameHeader;
using wire::FrameType;

namespace {

// How long a failing side goes on to deliver its last word.
constexpr std::chrono::milliseconds kLastWord(200);

}  // namespace

// Everything but the counters is loop-confined. Kept alive by the callbacks of the stream.
class Connection::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Loop& loop, std::unique_ptr<ByteStream> stream, ConnectionOptions options)
      : loop_(loop), stream_(std::move(stream)), options_(std::move(options)) {}

  Loop& loop() { return loop_; }
  std::uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  std::uint64_t frames_sent() const { return frames_sent_.load(std::memory_order_relaxed); }
  StreamUse UseOnLoop() const { return stream_->UseOnLoop(); }
  void SetPeerOnLoop(const std::string& name, std::uint64_t rank) {
    options_.peer = name;
    options_.rank = rank;
  }

  void SendOnLoop(FrameType type, std::uint64_t tag, std::span<const std::byte> payload,
                  std::uint32_t crc, Sent done) {
    if (closed_) return done(closed_->status);
    const FrameHeader header{.type = type,
                             .cluster = options_.cluster,
                             .generation = options_.generation,
                             .tag = tag,
                             .length = static_cast<std::uint32_t>(payload.size()),
                             .payload_crc = crc};
    outgoing_.push_back({header, payload, std::move(done)});
    PumpOnLoop();
  }

  void ReceiveOnLoop(const Expected& expected, std::span<std::byte> into, Received done) {
    if (closed_) return done(closed_->status, 0);
    incoming_.push_back({expected, into, std::move(done)});
    if (reading_ == Reading::kParked) TakePayloadOnLoop();
  }

  void WhenClosedOnLoop(OnClosed on_closed) {
    if (closed_) return on_closed(*closed_);
    on_closed_ = std::move(on_closed);
  }

  void ReadHeaderOnLoop() {
    reading_ = Reading::kHeader;
    stream_->ReadOnLoop(header_bytes_, [self = shared_from_this()](const Status& status) {
      self->reading_ = Reading::kNothing;
      self->OnHeaderOnLoop(status);
    });
  }

  void AbortOnLoop(const wire::Failure& why) {
    FailOnLoop({Status::Error(why.code, why.text), why.blamed, false}, Ending::kTell);
  }

  void LeaveOnLoop() {
    if (closed_) return;
    leaving_ = true;
    PumpOnLoop();
  }

  // A last word that is on its way is not cut off.
  void CloseOnLoop() {
    if (closed_ && ending_ != Ending::kSilent) return;
    if (leaving_) return;
    FailOnLoop({Status::Error(Code::kAborted, "the connection was closed on this side")},
               Ending::kSilent);
  }

 private:
  struct Outgoing {
    FrameHeader header;
    std::span<const std::byte> payload;
    Sent done;
  };
  struct Incoming {
    Expected expected;
    std::span<std::byte> into;
    Received done;
  };
  enum class Ending { kSilent, kTell, kLeave };
  enum class Reading {
    kNothing,
    kHeader,
    kParked,   // a header has arrived for which nobody waits yet
    kPayload,  // into the memory of the first receive
    kEnd,      // the payload of the last frame
  };

  // --- writing

  void PumpOnLoop() {
    if (writing_) return;
    if (closed_) return LastWordOnLoop();
    if (outgoing_.empty()) {
      if (leaving_) {
        FailOnLoop({Status::Error(Code::kAborted, "we have left"), wire::Failure::kNobody, true},
                   Ending::kLeave);
      }
      return;
    }
    WriteOnLoop(outgoing_.front().header, outgoing_.front().payload);
  }

  void WriteOnLoop(FrameHeader header, std::span<const std::byte> payload) {
    writing_ = true;
    header.sequence = next_out_++;
    out_header_ = wire::EncodeHeader(header);
    stream_->WriteOnLoop({out_header_, payload}, [self = shared_from_this()](const Status& status) {
      self->OnWrittenOnLoop(status);
    });
    bytes_sent_.fetch_add(wire::kHeaderBytes + payload.size(), std::memory_order_relaxed);
    frames_sent_.fetch_add(1, std::memory_order_relaxed);
  }

  void OnWrittenOnLoop(const Status& status) {
    writing_ = false;
    if (last_word_started_) {
      stream_->ShutdownWriteOnLoop();
      if (reading_ == Reading::kNothing || reading_ == Reading::kParked) stream_->CloseOnLoop();
      return;
    }
    Outgoing frame = std::move(outgoing_.front());
    outgoing_.pop_front();
    // First: what the sender is told must name the peer, as every other message does.
    if (!status.ok() && !closed_) FailOnLoop(Broken(status), Ending::kSilent);
    frame.done(closed_ ? closed_->status : status);
    PumpOnLoop();
  }

  // --- reading

  void OnHeaderOnLoop(const Status& status) {
    if (closed_) return stream_->CloseOnLoop();
    if (!status.ok()) return FailOnLoop(Broken(status), Ending::kSilent);
    auto header = wire::DecodeHeader(header_bytes_);
    const Status checked = header.ok() ? Check(*header) : header.status();
    if (!checked.ok()) return Refuse(checked);
    in_ = *header;
    ++next_in_;
    if (in_.type == FrameType::kAbort || in_.type == FrameType::kLeave) return TakeEndOnLoop();
    if (incoming_.empty()) {
      reading_ = Reading::kParked;
      return;
    }
    TakePayloadOnLoop();
  }

  Status Check(const FrameHeader& header) const {
    // Whoever refuses another job or generation says so in its own.
    if (header.type == FrameType::kAbort) return {};
    if (header.cluster != options_.cluster) {
      return Status::Error(Code::kMismatch, "the frame belongs to another job");
    }
    if (header.generation != options_.generation) {
      return Status::Error(
          header.generation < options_.generation ? Code::kStaleGeneration : Code::kProtocol,
          fmt::format("the frame is of generation {}, this is {}", header.generation.value(),
                      options_.generation.value()));
    }
    if (header.sequence != next_in_) {
      return Status::Error(Code::kProtocol, fmt::format("frame {} came where {} was due",
                                                        header.sequence, next_in_));
    }
    return {};
  }

  void TakePayloadOnLoop() {
    const Incoming& next = incoming_.front();
    const Expected& expected = next.expected;
    const bool fits =
        expected.exact ? in_.length == next.into.size() : in_.length <= next.into.size();
    if (in_.type != expected.type || in_.tag != expected.tag || !fits) {
      reading_ = Reading::kNothing;
      return Refuse(Status::Error(
          Code::kProtocol,
          fmt::format("expected a {} frame {:#x} of {} bytes, got a {} frame {:#x} of {} bytes: "
                      "the two sides do different things",
                      FrameTypeName(expected.type), expected.tag, next.into.size(),
                      FrameTypeName(in_.type), in_.tag, in_.length)));
    }
    reading_ = Reading::kPayload;
    ReadPayloadOnLoop(next.into.first(in_.length), [this](const Status& status) {
      Incoming done = std::move(incoming_.front());
      incoming_.pop_front();
      done.done(status, in_.length);
      if (status.ok()) ReadHeaderOnLoop();
    });
  }

  // The last frame: an abort or a good-bye.
  void TakeEndOnLoop() {
    reading_ = Reading::kEnd;
    end_payload_.resize(in_.length);
    ReadPayloadOnLoop(end_payload_, [this](const Status& status) {
      if (!status.ok()) return;
      if (in_.type == FrameType::kLeave) {
        return FailOnLoop(
            {Status::Error(Code::kPeerLost, fmt::format("{} has left", options_.peer)),
             options_.rank, true},
            Ending::kLeave);
      }
      const auto failure = wire::Failure::Decode(end_payload_);
      if (!failure.ok()) return Refuse(failure.status());
      FailOnLoop({Status::Error(failure->code, failure->text), failure->blamed, false},
                 Ending::kSilent);
    });
  }

  // `done` runs with an error only after the connection has failed.
  void ReadPayloadOnLoop(std::span<std::byte> into, std::function<void(const Status&)> done) {
    const auto finish = [self = shared_from_this(), into,
                         done = std::move(done)](const Status& read) {
      Status status = read;
      if (self->closed_) {
        status = self->closed_->status;
        self->stream_->CloseOnLoop();
      } else if (!read.ok()) {
        self->FailOnLoop(self->Broken(read), Ending::kSilent);
        status = self->closed_->status;
      } else if (wire::Crc32c(into) != self->in_.payload_crc) {
        self->Refuse(Status::Error(Code::kProtocol, "the payload's checksum is wrong"));
        status = self->closed_->status;
      }
      self->reading_ = Reading::kNothing;  // only now: failing must leave this receive to us
      done(status);
    };
    if (into.empty()) {
      loop_.Post([finish] { finish({}); });
    } else {
      stream_->ReadOnLoop(into, finish);
    }
  }

  // --- ending

  Closed Broken(const Status& status) const {
    if (status.code() == Code::kAborted) return {status, wire::Failure::kNobody, false};
    return {
        Status::Error(Code::kPeerLost, fmt::format("lost {}: {}", options_.peer, status.message())),
        options_.rank, false};
  }

  void Refuse(const Status& status) {
    FailOnLoop({status.Wrap(fmt::format("from {}", options_.peer)), options_.rank, false},
               Ending::kTell);
  }

  // Nothing is answered before the stream has returned the memory that it holds.
  void FailOnLoop(const Closed& how, Ending ending) {
    if (closed_) return;
    closed_ = how;
    ending_ = ending;
    while (incoming_.size() > (reading_ == Reading::kPayload ? 1U : 0U)) {
      Incoming dropped = std::move(incoming_.back());
      incoming_.pop_back();
      dropped.done(how.status, 0);
    }
    while (outgoing_.size() > (writing_ ? 1U : 0U)) {
      Outgoing dropped = std::move(outgoing_.back());
      outgoing_.pop_back();
      dropped.done(how.status);
    }
    if (on_closed_) std::exchange(on_closed_, nullptr)(how);
    if (ending == Ending::kSilent) return stream_->CloseOnLoop();
    linger_ = loop_.AfterOnLoop(kLastWord, [self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->stream_->CloseOnLoop();
    });
    if (!writing_) LastWordOnLoop();
  }

  void LastWordOnLoop() {
    if (ending_ == Ending::kSilent || last_word_started_) return;
    last_word_started_ = true;
    FrameHeader header{.type = ending_ == Ending::kLeave ? FrameType::kLeave : FrameType::kAbort,
                       .cluster = options_.cluster,
                       .generation = options_.generation};
    if (ending_ == Ending::kTell) {
      last_word_ = wire::Failure{closed_->status.code(), closed_->blamed, closed_->status.message()}
                       .Encode();
    }
    header.length = static_cast<std::uint32_t>(last_word_.size());
    header.payload_crc = wire::Crc32c(last_word_);
    WriteOnLoop(header, last_word_);
  }

  Loop& loop_;
  std::unique_ptr<ByteStream> stream_;
  ConnectionOptions options_;

  std::deque<Outgoing> outgoing_;  // the first is being written when writing_
  bool writing_ = false;
  std::uint64_t next_out_ = 0;
  std::array<std::byte, wire::kHeaderBytes> out_header_{};

  std::deque<Incoming> incoming_;
  Reading reading_ = Reading::kNothing;
  std::uint64_t next_in_ = 0;
  std::array<std::byte, wire::kHeaderBytes> header_bytes_{};
  FrameHeader in_;
  std::vector<std::byte> end_payload_;

  std::optional<Closed> closed_;
  Ending ending_ = Ending::kSilent;
  bool leaving_ = false;
  bool last_word_started_ = false;
  std::vector<std::byte> last_word_;
  std::unique_ptr<Loop::Timer> linger_;
  OnClosed on_closed_;

  std::atomic<std::uint64_t> bytes_sent_{0}, frames_sent_{0};
};

Connection::Connection(Loop& loop, std::unique_ptr<ByteStream> stream,
                       const ConnectionOptions& options)
    : impl_(std::make_shared<Impl>(loop, std::move(stream), options)) {
  loop.Post([impl = impl_] { impl->ReadHeaderOnLoop(); });
}

Connection::~Connection() {
  impl_->loop().Post([impl = impl_] { impl->CloseOnLoop(); });
}

void Connection::CloseOnLoop() {
  PACELINE_CHECK(impl_->loop().OnLoop(), "on the loop");
  impl_->CloseOnLoop();
}

void Connection::Send(FrameType type, std::uint64_t tag, std::span<const std::byte> payload,
                      Sent done) {
  PACELINE_CHECK(payload.size() <= wire::MaxPayload(type), "a frame within its limit");
  impl_->loop().Post([impl = impl_, type, tag, payload, crc = wire::Crc32c(payload),
                      done = std::move(done)]() mutable {
    impl->SendOnLoop(type, tag, payload, crc, std::move(done));
  });
}

void Connection::Receive(const Expected& expected, std::span<std::byte> into, Received done) {
  impl_->loop().Post([impl = impl_, expected, into, done = std::move(done)]() mutable {
    impl->ReceiveOnLoop(expected, into, std::move(done));
  });
}

void Connection::WhenClosed(OnClosed on_closed) {
  impl_->loop().Post([impl = impl_, on_closed = std::move(on_closed)]() mutable {
    impl->WhenClosedOnLoop(std::move(on_closed));
  });
}

void Connection::Abort(const wire::Failure& why) {
  impl_->loop().Post([impl = impl_, why] { impl->AbortOnLoop(why); });
}

void Connection::Leave() {
  impl_->loop().Post([impl = impl_] { impl->LeaveOnLoop(); });
}

void Connection::SetPeer(const std::string& name, std::uint64_t rank) {
  impl_->loop().Post([impl = impl_, name, rank] { impl->SetPeerOnLoop(name, rank); });
}

std::uint64_t Connection::bytes_sent() const { return impl_->bytes_sent(); }

std::uint64_t Connection::frames_sent() const { return impl_->frames_sent(); }

StreamUse Connection::use() const {
  StreamUse use;
  internal::RunOnLoop(impl_->loop(), [&] { use = impl_->UseOnLoop(); });
  return use;
}

void Completion::Finish(const Status& status, std::size_t bytes) {
  const MutexLock lock(mutex_);
  PACELINE_CHECK(!done_, "a completion comes once");
  done_ = true;
  status_ = status;
  bytes_ = bytes;
  changed_.notify_all();
}

Status Completion::Wait(std::chrono::steady_clock::time_point deadline) {
  const MutexLock lock(mutex_);
  while (!done_) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout && !done_) {
      return Status::Error(Code::kTimeout, "nothing came in time");
    }
  }
  return status_;
}

void Completion::WaitWithoutDeadline() {
  const MutexLock lock(mutex_);
  while (!done_) changed_.wait(mutex_);
}

std::size_t Completion::bytes() {
  const MutexLock lock(mutex_);
  return bytes_;
}

void Completion::Reset() {
  const MutexLock lock(mutex_);
  done_ = false;
  status_ = {};
}

}  // namespace paceline::net

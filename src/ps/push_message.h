#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/unfilled_allocator.h"

namespace paceline::ps {

// Rows of one sparse table in a push: one gradient (or delta) for each id.
struct TablePart {
  std::uint32_t table = 0;
  std::uint32_t dim = 0;
  std::span<const std::int64_t> ids;
  std::span<const float> values;  // ids.size() * dim

  friend bool operator==(const TablePart& a, const TablePart& b);
};

// Pushes of a trainer that a server may not have acknowledged yet. It keeps them all, and after a
// server came back, it may send them all again before the other trainers do.
inline constexpr std::uint64_t kMostUnacknowledged = 64;

// Push::version of a push that does not say with which parameters it was computed.
inline constexpr std::uint64_t kVersionUnknown = std::numeric_limits<std::uint64_t>::max();

// What a trainer sends to one server after a batch. Spans are the caller's: when encoding, its
// arrays; when decoding, places in the message. A server logs the message as it came.
struct Push {
  std::uint64_t lease = 0;  // with `batch`, the push's name: applied at most once
  std::uint64_t batch = 0;
  std::uint64_t version = 0;  // pushes that were applied when its parameters were pulled
  float learning_rate = 0;
  bool last = false;           // no further batch of this lease
  bool deltas = false;         // changes of values, not gradients (geo)
  bool save = false;           // whoever gets it shall make a snapshot soon, with it
  std::uint64_t trainers = 1;  // so many share the samples: deltas are divided by this
  std::vector<TablePart> tables;
  std::span<const float> dense;  // this server's blocks one after the other; empty: none

  friend bool operator==(const Push& a, const Push& b);
};

// A message's memory: aligned so that numbers can be used in place. What is made longer is not
// filled with zeros: it is received or written into.
using MessageBytes = std::vector<std::uint64_t, UnfilledAllocator<std::uint64_t>>;
inline std::span<const std::byte> AsBytes(const MessageBytes& message) {
  return std::as_bytes(std::span(message));
}

MessageBytes EncodePush(const Push& push);

// Writes a push whose dense floats are given one after the other.
class PushEncoder {
 public:
  // What `message` must have for `push` with so many dense floats instead of its own: a multiple of
  // 8.
  static std::size_t Bytes(const Push& push, std::size_t dense_floats);
  // `message` is on an address divisible by 8.
  PushEncoder(const Push& push, std::size_t dense_floats, std::span<std::byte> message);

  // The next floats, not more than were announced.
  void Append(std::span<const float> floats);
  // Bytes from the beginning that do not change any more: all of them after the last float.
  std::size_t written() const { return missing_ == 0 ? message_.size() : at_; }

 private:
  std::span<std::byte> message_;
  std::size_t at_ = 0;       // where the next float goes
  std::size_t missing_ = 0;  // floats
};

// The spans of the result point into `bytes`, which must lie on an address divisible by 8.
// kProtocol for anything that EncodePush cannot have written.
Result<Push> DecodePush(std::span<const std::byte> bytes);

// Looks at the dense floats of a push while its message arrives, when they are in the cache.
class ArrivingPush {
 public:
  // `so_far` grows with each call and begins with nothing; the message will have `bytes`.
  void See(std::span<const std::byte> so_far, std::size_t bytes);
  // Of the message that was seen last: all of them were seen and are finite. False says nothing.
  bool DenseIsFinite() const { return complete_ && finite_; }

 private:
  std::size_t seen_ = 0;  // bytes
  bool finite_ = true, complete_ = false;
};

}  // namespace paceline::ps

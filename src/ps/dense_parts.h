#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ps/job_spec.h"
#include "ps/shared_floats.h"
#include "ps/store.h"

// Which dense floats of a trainer's buffer are those of one server, whose blocks lie one after the
// other there. Pure but for threads that copy.
namespace paceline::ps {

std::uint64_t CountFloats(std::span<const DensePiece> pieces);

// The blocks of one server, one after the other; in `memory` unless they lie like that already.
std::span<const float> GatherDense(std::span<const float> all, std::span<const DensePiece> pieces,
                                   std::vector<float>& memory);

// Copies a server's values to where they belong, in several threads when they are many: whoever
// pulls waits for them.
void ReadDense(const FloatsReader& values, std::span<const DensePiece> pieces,
               std::span<float> all);

// Puts the dense floats of one server's answer where they belong, as they arrive.
class DenseScatter {
 public:
  // They begin after `before` bytes of the answer.
  DenseScatter(std::span<const DensePiece> pieces, std::size_t before, std::span<float> all);

  // `answer` grows with each call; nothing: another one begins.
  void See(std::span<const std::byte> answer);
  // Where a part of an answer of `bytes` can be received to without a copy; nothing: nowhere.
  std::span<std::byte> Place(std::size_t begin, std::size_t count, std::size_t bytes);
  // Floats of the answer that were received to where they belong.
  std::size_t placed() const { return placed_ / sizeof(float); }

 private:
  const std::span<const DensePiece> pieces_;
  const std::size_t before_;
  const std::span<float> all_;
  const bool is_whole_;     // one server has all of them
  std::size_t done_ = 0;    // floats
  std::size_t placed_ = 0;  // bytes
};

// Hands on the dense floats of one server's answer as they arrive, each once: of an answer that is
// sent anew, because the server went away, those that were here before are left out. Of one thread.
class ArrivingFloats {
 public:
  // `pieces` are in the order of the answer; they begin after `before` bytes of it. Borrows `take`.
  ArrivingFloats(std::vector<DensePiece> pieces, std::size_t before, const TakeDense& take)
      : pieces_(std::move(pieces)), before_(before), take_(take) {}

  // `answer` grows with each call; nothing: another one begins.
  void See(std::span<const std::byte> answer);

 private:
  const std::vector<DensePiece> pieces_;
  const std::size_t before_;
  const TakeDense& take_;
  std::size_t done_ = 0;  // floats
};

}  // namespace paceline::ps

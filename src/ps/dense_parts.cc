#include "ps/dense_parts.h"

#include <algorithm>
#include <thread>

#include "base/thread.h"
#include "kernel/copy.h"

namespace paceline::ps {

namespace {

constexpr std::size_t kReaderFloats = std::size_t{1} << 20;  // fewer are not worth a thread
constexpr std::size_t kMostReaders = 4;

// Whether the pieces, one after the other, are the whole buffer as it is.
bool AreAll(std::span<const DensePiece> pieces, std::size_t floats) {
  std::uint64_t end = 0;
  for (const DensePiece& piece : pieces) {
    if (piece.begin != end) return false;
    end += piece.count;
  }
  return end == floats;
}

// Calls `use(place in the buffer, place at the server, count)` for the floats of the pieces that
// are `first` to `last` at the server.
template <typename Use>
void ForEachPart(std::span<const DensePiece> pieces, std::size_t first, std::size_t last, Use use) {
  std::size_t begin = 0;  // of the piece
  for (const DensePiece& piece : pieces) {
    const std::size_t end = begin + static_cast<std::size_t>(piece.count);
    const std::size_t from = std::max(begin, first), to = std::min(end, last);
    if (from < to) use(static_cast<std::size_t>(piece.begin) + from - begin, from, to - from);
    begin = end;
  }
}

}  // namespace

std::uint64_t CountFloats(std::span<const DensePiece> pieces) {
  std::uint64_t floats = 0;
  for (const DensePiece& piece : pieces) floats += piece.count;
  return floats;
}

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

void ReadDense(const FloatsReader& values, std::span<const DensePiece> pieces,
               std::span<float> all) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t threads =
      std::clamp<std::size_t>(values.size() / kReaderFloats, 1, std::min(cores, kMostReaders));
  const std::size_t each = (values.size() + threads - 1) / threads;
  const auto read = [&](std::size_t first) {
    ForEachPart(pieces, first, std::min(first + each, values.size()),
                [&](std::size_t place, std::size_t from, std::size_t count) {
                  values.Read(from, all.subspan(place, count));
                });
  };
  std::vector<std::jthread> others;
  for (std::size_t first = each; first < values.size(); first += each) {
    others.push_back(StartThread("ps-read", [&read, first] { read(first); }));
  }
  read(0);
}

DenseScatter::DenseScatter(std::span<const DensePiece> pieces, std::size_t before,
                           std::span<float> all)
    : pieces_(pieces), before_(before), all_(all), is_whole_(AreAll(pieces, all.size())) {}

void DenseScatter::See(std::span<const std::byte> answer) {
  if (answer.empty()) done_ = placed_ = 0;
  if (answer.size() <= before_) return;
  const std::size_t there = (answer.size() - before_) / sizeof(float);
  const auto* const dense = reinterpret_cast<const float*>(answer.data() + before_);
  ForEachPart(pieces_, done_, there, [&](std::size_t place, std::size_t from, std::size_t count) {
    kernel::CopyPart(all_.subspan(place, count), {dense + from, count}, all_.size_bytes());
  });
  done_ = there;
}

std::span<std::byte> DenseScatter::Place(std::size_t begin, std::size_t count, std::size_t bytes) {
  const bool fits = bytes == before_ + all_.size_bytes();
  if (!is_whole_ || !fits || begin < before_) return {};
  placed_ += count;
  return std::as_writable_bytes(all_).subspan(begin - before_, count);
}

void ArrivingFloats::See(std::span<const std::byte> answer) {
  if (answer.size() <= before_) return;
  const std::size_t there = (answer.size() - before_) / sizeof(float);
  const auto* const dense = reinterpret_cast<const float*>(answer.data() + before_);
  ForEachPart(pieces_, done_, there, [&](std::size_t place, std::size_t from, std::size_t count) {
    take_(place, {dense + from, count});
  });
  done_ = std::max(done_, there);
}

}  // namespace paceline::ps

#include "ps/dense_order.h"

#include <algorithm>
#include <numeric>

#include "kernel/copy.h"

namespace paceline::ps {

namespace {

constexpr std::size_t kRunFloats = std::size_t{256} << 10;

}  // namespace

std::vector<DenseRun> DenseRuns(std::size_t floats, DenseOrder order) {
  std::vector<DenseRun> runs;
  runs.reserve(floats / kRunFloats + 1);
  for (std::size_t done = 0; done < floats; done += runs.back().count) {
    const std::size_t count = std::min(kRunFloats, floats - done);
    runs.push_back({order == DenseOrder::kFromFirst ? done : floats - done - count, count});
  }
  return runs;
}

void CopyInOrder(std::span<const float> floats, DenseOrder order, std::span<float> out,
                 const std::function<void(std::size_t)>& copied) {
  std::size_t done = 0;
  for (const DenseRun& run : DenseRuns(floats.size(), order)) {
    kernel::CopyPart(out.subspan(done, run.count), floats.subspan(run.begin, run.count),
                     out.size_bytes());
    done += run.count;
    if (copied) copied(done);
  }
}

std::vector<DensePiece> PiecesInOrder(std::span<const DensePiece> pieces, DenseOrder order) {
  if (order == DenseOrder::kFromFirst) return {pieces.begin(), pieces.end()};
  const std::uint64_t floats =
      std::transform_reduce(pieces.begin(), pieces.end(), std::uint64_t{0}, std::plus<>(),
                            [](const DensePiece& piece) { return piece.count; });
  std::vector<DensePiece> cut;
  for (const DenseRun& run : DenseRuns(static_cast<std::size_t>(floats), order)) {
    std::uint64_t begin = 0;  // of the piece, among the server's floats
    for (const DensePiece& piece : pieces) {
      const std::uint64_t from = std::max<std::uint64_t>(begin, run.begin);
      const std::uint64_t to = std::min<std::uint64_t>(begin + piece.count, run.begin + run.count);
      if (from < to) cut.push_back({piece.tensor, piece.begin + from - begin, to - from});
      begin += piece.count;
    }
  }
  return cut;
}

}  // namespace paceline::ps

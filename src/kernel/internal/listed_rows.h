#pragma once

#include <cstddef>
#include <cstdint>

// The innermost loops of a product whose left factor is a list of nonzeros, once for each kind of
// vectors. Each sum is a chain of fused multiply-adds in the order of the list, whatever the
// vectors' length: all give the same bits.
namespace paceline::kernel::internal {

// Of row r those from ends[r] to before ends[r + 1]. An offset leads from the panel's first float
// to the row that the value is multiplied with.
struct ListedRows {
  const float* values;
  const std::uint32_t* offsets;
  const std::size_t* ends;
  std::size_t rows;
};

// Sums of row r begin with the floats at start + r * start_step and are stored, none below
// `floor`, to first + r * step. NaN comes through.
struct ListedTarget {
  const float* start;
  std::size_t start_step;
  float* first;
  std::size_t step;
  float floor;
};

// One row at a time with all sums of a panel in registers, so that each nonzero costs one broadcast
// and one multiply-add for each vector of the panel, which is read from the first-level cache.
struct Avx2Lists {
  static constexpr std::size_t kFloats = 8;
  // Of 8, 10, 12 and 13 vectors, which leaves a register for the factor and one for the floor, and
  // of 14 to 30 KiB (of 32) these were the fastest for CTR-DNN's layers with 20 and 35 % nonzeros.
  static constexpr std::size_t kMaxVectors = 13;
  static constexpr std::size_t kPanelBytes = 30 * 1024;
  static constexpr std::size_t kTransposedStep = 1;  // with blocks of 8 an AMD EPYC was not faster
  static constexpr bool kMayReadInPlace = false;     // a panel that nobody packed; not measured
  // `vectors`, of the panel's rows that are wanted, is from 1 to kMaxVectors.
  static void Multiply(std::size_t vectors, const ListedRows& rows, const float* panel,
                       const ListedTarget& target);
};

struct Avx512Lists {
  static constexpr std::size_t kFloats = 16;
  // Narrow panels have many values of k, so sums come and go less often: of 5, 7, 9 and 13 vectors
  // and 26 to 44 KiB (of 48) these were the fastest for CTR-DNN's layers at batch 100.
  static constexpr std::size_t kMaxVectors = 5;
  static constexpr std::size_t kPanelBytes = 36 * 1024;
  // Values of k of a panel that is transposed come in whole squares.
  static constexpr std::size_t kTransposedStep = 16;
  static constexpr bool kMayReadInPlace = true;
  static void Multiply(std::size_t vectors, const ListedRows& rows, const float* panel,
                       const ListedTarget& target);
};

}  // namespace paceline::kernel::internal

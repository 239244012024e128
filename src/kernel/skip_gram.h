#pragma once

#include <cstddef>
#include <span>

namespace paceline::kernel {

// Skip-gram with negative sampling (Mikolov et al. 2013) for one centre word at a time. All pairs
// of a centre share its negatives, so that scores and updates are small matrix products instead of
// one dot product per pair: the scheme of Ji et al., "Parallelizing Word2Vec in Shared and
// Distributed Memory" (2016). A pair still meets as many negatives as in the classic algorithm, and
// a negative is met by the 2 to 2 * window pairs of one centre instead of by one.

struct SkipGramRows {
  std::span<const float* const> inputs;   // of the words around the centre
  std::span<const float* const> outputs;  // of the centre, then of the negatives; at least one
  std::size_t dim = 0;
};

// Where changes are added; as many as there are rows, each of `dim` floats.
struct SkipGramSums {
  std::span<float* const> inputs;
  std::span<float* const> outputs;
};

// Floats that SkipGramStep needs as scratch memory for at most so many rows.
std::size_t SkipGramScratchFloats(std::size_t inputs, std::size_t outputs, std::size_t dim);

// With g = factor * (label - sigmoid(input . output)), where the label is 1 for the centre and 0
// for a negative, adds g * output to the sum of each input and g * input to the sum of each output.
// Returns the loss, sum of -log sigmoid(+-input . output) over all combinations, each at most 17.4.
//
// factor = -scale with sums in a gradient buffer gives the gradient of scale * loss; factor =
// learning rate with the rows themselves as sums is one step of SGD in place. All changes come from
// the rows as they were before the call, and a row that is there twice gets both changes.
// The sigmoid is exact to 2e-7, without a table.
double SkipGramStep(const SkipGramRows& rows, float factor, const SkipGramSums& sums,
                    std::span<float> scratch);

// Sum of products, added in a fixed order (8 interleaved sums, then pairs of these).
float Dot(std::span<const float> left, std::span<const float> right);

// values[i] = 1 / (1 + exp(-values[i])), relative error below 2e-7 for arguments within +-87 and
// clamped beyond; no libm, so that every machine makes the same bits.
void Sigmoid(std::span<float> values);

}  // namespace paceline::kernel

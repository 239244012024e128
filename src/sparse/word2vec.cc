#include "sparse/word2vec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "algo/sample_order.h"
#include "base/check.h"
#include "base/rng.h"
#include "kernel/skip_gram.h"

namespace paceline::sparse {

namespace {

std::vector<double> NegativeWeights(const std::vector<std::uint64_t>& counts) {
  std::vector<double> weights;
  weights.reserve(counts.size());
  for (const std::uint64_t count : counts) {
    weights.push_back(std::pow(static_cast<double>(count), 0.75));
  }
  return weights;
}

// The place of a word in batch.ids[table], where it is added when it is new.
std::uint32_t Place(Word2VecBatch& batch, std::size_t table, std::int32_t word) {
  std::uint64_t& place = batch.places[table][static_cast<std::size_t>(word)];
  if (place >> 32 != batch.round) {
    place = (batch.round << 32) | batch.ids[table].size();
    batch.ids[table].push_back(word);
  }
  return static_cast<std::uint32_t>(place);
}

void Reset(std::size_t words, Word2VecBatch& batch) {
  batch.samples = batch.words = batch.pairs = 0;
  batch.ids.resize(2);
  for (auto& ids : batch.ids) ids.clear();
  batch.groups.clear();
  batch.inputs.clear();
  batch.outputs.clear();
  if (batch.places[0].size() != words || batch.round == 0xFFFFFFFF) {
    for (auto& places : batch.places) places.assign(words, 0);
    batch.round = 0;
  }
  ++batch.round;
}

template <typename Pick, typename Row>
void Collect(std::span<const std::uint32_t> places, Pick pick, std::vector<Row>& rows) {
  rows.clear();
  for (const std::uint32_t place : places) rows.push_back(pick(place));
}

// Calls visit(inputs, outputs) with the places of each group.
template <typename Visit>
void ForEachGroup(const Word2VecBatch& batch, Visit visit) {
  std::uint32_t input = 0, output = 0;
  for (const Word2VecBatch::Group& group : batch.groups) {
    visit(std::span(batch.inputs).subspan(input, group.inputs_end - input),
          std::span(batch.outputs).subspan(output, group.outputs_end - output));
    input = group.inputs_end;
    output = group.outputs_end;
  }
}

}  // namespace

Word2Vec::Word2Vec(const Word2VecOptions& options, const data::TextSource& text)
    : options_(options),
      text_(text),
      subsampler_(options.seed, options.subsample, text.counts()),
      negatives_(NegativeWeights(text.counts())) {
  PACELINE_CHECK(options.dim > 0 && options.window > 0, "sizes");
  const std::uint64_t words = text.counts().size();
  tables_ = {{.name = "input",
              .rows = words,
              .dim = options.dim,
              .init_range = 0.5F / static_cast<float>(options.dim)},
             {.name = "output", .rows = words, .dim = options.dim}};
  scratch_.resize(kernel::SkipGramScratchFloats(std::size_t{2} * options.window,
                                                1 + options.negatives, options.dim));
}

void Word2Vec::InitialiseDense(std::uint64_t /*seed*/, std::span<float> values) const {
  PACELINE_CHECK(values.empty(), "no dense tensors");
}

Result<std::unique_ptr<SparseBatch>> Word2Vec::Prepare(const algo::PositionRange& positions,
                                                       std::unique_ptr<SparseBatch> into) const {
  if (into == nullptr) into = std::make_unique<Word2VecBatch>();
  auto& batch = static_cast<Word2VecBatch&>(*into);
  Reset(text_.counts().size(), batch);
  const std::uint64_t size = dataset_size();
  std::vector<std::int32_t> words;
  for (std::uint64_t done = 0; done < positions.count;) {
    const std::uint64_t epoch = (positions.begin + done) / size;
    const algo::SampleOrder order(options_.seed, epoch, size);
    const std::uint64_t first = (positions.begin + done) % size;
    const std::uint64_t count = std::min(positions.count - done, size - first);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t sentence = order.At(first + i);
      PACELINE_TRY(text_.Read(sentence, words));
      batch.words += words.size();
      subsampler_.Apply(epoch, sentence, words);
      AddSentence(epoch, sentence, words, batch);
    }
    done += count;
  }
  batch.samples = positions.count;
  return into;
}

void Word2Vec::AddSentence(std::uint64_t epoch, std::uint64_t sentence,
                           std::span<const std::int32_t> words, Word2VecBatch& batch) const {
  if (words.size() < 2) return;
  CounterRng rng(options_.seed, Purpose::kSkipGram, epoch, sentence);
  for (std::size_t centre = 0; centre < words.size(); ++centre) {
    const std::size_t reach = 1 + rng.Below(options_.window);
    const std::size_t begin = centre - std::min(centre, reach);
    const std::size_t end = std::min(words.size(), centre + reach + 1);
    for (std::size_t i = begin; i < end; ++i) {
      if (i != centre) batch.inputs.push_back(Place(batch, 0, words[i]));
    }
    batch.pairs += end - begin - 1;
    batch.outputs.push_back(Place(batch, 1, words[centre]));
    for (std::uint32_t n = 0; n < options_.negatives; ++n) {
      // As in word2vec.c, a negative that is the centre itself is left out, not drawn again.
      const auto word = static_cast<std::int32_t>(negatives_.Draw(rng));
      if (word != words[centre]) batch.outputs.push_back(Place(batch, 1, word));
    }
    batch.groups.push_back({static_cast<std::uint32_t>(batch.inputs.size()),
                            static_cast<std::uint32_t>(batch.outputs.size())});
  }
}

StepLoss Word2Vec::Compute(const SparseBatch& batch, std::span<const float> /*dense*/, float scale,
                           std::span<float> /*dense_gradient*/, std::span<const TableRows> tables) {
  const auto& pairs = static_cast<const Word2VecBatch&>(batch);
  const std::size_t dim = options_.dim;
  for (const TableRows& table : tables) std::ranges::fill(table.gradient, 0.0F);
  std::vector<const float*> inputs, outputs;
  std::vector<float*> input_sums, output_sums;
  StepLoss loss{.samples = pairs.words};
  ForEachGroup(pairs, [&](auto input_places, auto output_places) {
    const auto row = [&](std::size_t table) {
      return [&, table](std::uint32_t place) { return tables[table].values[place]; };
    };
    const auto sum = [&](std::size_t table) {
      return
          [&, table](std::uint32_t place) { return tables[table].gradient.data() + place * dim; };
    };
    Collect(input_places, row(0), inputs);
    Collect(output_places, row(1), outputs);
    Collect(input_places, sum(0), input_sums);
    Collect(output_places, sum(1), output_sums);
    loss.sum +=
        kernel::SkipGramStep({inputs, outputs, dim}, -scale, {input_sums, output_sums}, scratch_);
  });
  return loss;
}

StepLoss Word2Vec::TrainInPlace(const SparseBatch& batch, std::span<const MutableRows> tables,
                                float learning_rate) {
  const auto& pairs = static_cast<const Word2VecBatch&>(batch);
  std::vector<float*> inputs, outputs;
  StepLoss loss{.samples = pairs.words};
  ForEachGroup(pairs, [&](auto input_places, auto output_places) {
    Collect(
        input_places, [&](std::uint32_t place) { return tables[0][place]; }, inputs);
    Collect(
        output_places, [&](std::uint32_t place) { return tables[1][place]; }, outputs);
    const kernel::SkipGramRows rows{
        {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}, options_.dim};
    loss.sum += kernel::SkipGramStep(rows, learning_rate, {inputs, outputs}, scratch_);
  });
  return loss;
}

void Word2Vec::Score(const SparseBatch& batch, std::span<const float> /*dense*/,
                     std::span<const TableRows> tables, std::vector<Scored>& scored) {
  std::vector<float> scores;
  std::vector<float> labels;
  const auto row = [&](std::size_t table, std::uint32_t place) {
    return std::span(tables[table].values[place], options_.dim);
  };
  ForEachGroup(static_cast<const Word2VecBatch&>(batch), [&](auto inputs, auto outputs) {
    for (const std::uint32_t input : inputs) {
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        scores.push_back(kernel::Dot(row(0, input), row(1, outputs[o])));
        labels.push_back(o == 0 ? 1.0F : 0.0F);
      }
    }
  });
  kernel::Sigmoid(scores);
  for (std::size_t i = 0; i < scores.size(); ++i) scored.push_back({scores[i], labels[i]});
}

}  // namespace paceline::sparse

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ps/push_message.h"
#include "ps/store.h"
#include "sparse/fused_model.h"
#include "sparse/unique_ids.h"

namespace paceline::fused {

using Batches = std::span<const std::unique_ptr<sparse::SparseBatch>>;

// The rows that the batches of one round touch, each once however many batches touch it, and the
// sums of their gradients. Thread-compatible; memory is kept between rounds.
class RoundRows {
 public:
  explicit RoundRows(const std::vector<sparse::TableSpec>& tables);

  // Begins a round. `batches` stay as they are until the round is over.
  void Begin(Batches batches);

  // Where the values of all rows are to be written, by table. Tables without rows are left out.
  std::vector<ps::RowsWanted> Wanted();

  // The rows of one batch, to compute with. Batches come in order; Add() follows each.
  std::span<const sparse::TableRows> RowsOf(std::size_t batch);
  void Add(std::size_t batch);

  // The sums. Views of this object.
  std::vector<ps::TablePart> Gradients() const;
  bool Finite() const;  // all sums

 private:
  struct Table {
    std::size_t dim = 0;
    sparse::UniqueIds unique;
    std::vector<std::int64_t> ids;                   // of all batches
    std::size_t first_rows = 0;                      // of the first batch
    std::vector<std::vector<std::uint32_t>> places;  // [batch][i]: of that batch's ids in `ids`
    std::vector<float> values;
    std::vector<float> sums;             // of gradients
    std::vector<const float*> pointers;  // of one batch
    std::vector<float> gradient;         // of one batch
  };

  // The ids of `batches` in table `number`, each once, and their places. Of several batches.
  static void Number(Table& table, Batches batches, std::size_t number);

  std::vector<Table> tables_;
  std::vector<sparse::TableRows> rows_;
};

}  // namespace paceline::fused

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/batch.h"
#include "data/tokenizer.h"
#include "job/train_config.h"

namespace paceline::train {

// What a run trains on and what it is judged by.
struct DataSource {
  std::unique_ptr<data::BatchSource> train;
  std::unique_ptr<data::BatchSource> held_out;
  std::shared_ptr<const data::Tokenizer> tokenizer;  // of text from files; else null
  std::vector<std::string> notes;                    // what was done on opening, for people
  std::vector<std::string> warnings;

  std::uint64_t BadRecords() const { return train->BadRecords() + held_out->BadRecords(); }
};

// Opens and checks everything before the first step. kBadData names file, record and offset.
Result<DataSource> OpenData(const job::TrainConfig& config);

}  // namespace paceline::train

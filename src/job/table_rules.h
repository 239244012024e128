#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/status.h"
#include "job/train_config.h"
#include "model/catalog.h"

namespace paceline::job {

// A setting that tables may have differently: "3" for all, or "users=3,items=5" for those named.
struct PerTable {
  std::string all;                           // empty: nothing is said
  std::map<std::string, std::string> named;  // by table

  // Empty: nothing is said of this table.
  const std::string& For(const std::string& table) const;
};
// kInvalidArgument names the flag.
Result<PerTable> ParsePerTable(const char* flag, const std::string& text);

// Which ids get a row of a table, how long they keep it, and how it learns.
struct TableRules {
  std::uint32_t admit_count = 1;
  double admit_probability = 1;
  std::uint32_t evict_after = 0;  // 0: never
  std::string optimizer;          // empty: as everything else; momentum: sgd that has it
  double lr_scale = 1;
};
// kInvalidArgument names the flag and the value.
Result<TableRules> RulesOfTable(const TrainConfig& config, const std::string& table);

// Whether --table-optimizer names it for any table.
Result<bool> SomeTableLearnsBy(const TrainConfig& config, const std::string& optimizer);

// Of a resolved configuration, before the names of the tables are known: kInvalidArgument for a
// flag of tables with a model that has none, and for one that a model with tables would ignore.
Status CheckTableFlags(const TrainConfig& config, const model::ModelCard& card);
// Every table that a flag names is one of these.
Status CheckTableNames(const TrainConfig& config, std::span<const std::string> tables);

void AddTableIdentity(const TrainConfig& config, std::map<std::string, std::string>& identity);

}  // namespace paceline::job

#include "bench/table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text_table.h"

namespace paceline::bench {

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr char kNone[] = "—";
constexpr std::size_t kBatchesPerBlock = 4;  // a label and four columns fit 100 characters

Rows MakeRows(const SingleNodeResults& results, const std::vector<BatchSummary>& batches) {
  const std::string ours = results.systems.empty() ? "" : results.systems[0].name;
  Rows rows{{"Batch size"}};
  for (const BatchSummary& batch : batches) rows[0].push_back(std::to_string(batch.batch));
  const auto add = [&](std::size_t system, const std::string& label, auto format) {
    if (!results.systems[system].unavailable.empty()) return;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(label);
    for (const BatchSummary& batch : batches) row.push_back(format(batch.cells[system]));
  };
  for (std::size_t i = 0; i < results.systems.size(); ++i) {
    add(i, SystemTitle(results.systems[i]),
        [](const Cell& cell) { return FormatRate(cell.samples_per_second); });
  }
  for (std::size_t i = 1; i < results.systems.size(); ++i) {
    add(i, fmt::format("{} / {}", ours, results.systems[i].name),
        [](const Cell& cell) { return FormatRatio(cell.speedup); });
  }
  for (std::size_t i = 0; i < results.systems.size(); ++i) {
    add(i, fmt::format("Memory {}", results.systems[i].name),
        [](const Cell& cell) { return FormatBytes(cell.max_rss_bytes); });
  }
  for (std::size_t i = 1; i < results.systems.size(); ++i) {
    add(i, fmt::format("Memory {} / {}", ours, results.systems[i].name), [](const Cell& cell) {
      return cell.memory_ratio ? fmt::format("{:.2f} ×", *cell.memory_ratio) : kNone;
    });
  }
  return rows;
}

}  // namespace

std::string FormatRate(const std::optional<Summary>& samples_per_second) {
  if (!samples_per_second) return kNone;
  return fmt::format("{:.2f} ± {:.2f}", samples_per_second->median, samples_per_second->mad);
}

std::string FormatRatio(const std::optional<Summary>& ratio) {
  return ratio ? fmt::format("{:.2f} ± {:.2f} ×", ratio->median, ratio->mad) : kNone;
}

std::string FormatBytes(std::optional<std::int64_t> bytes) {
  return bytes ? fmt::format("{:.0f} MB", static_cast<double>(*bytes) / 1e6) : kNone;
}

std::string SystemTitle(const SystemInfo& system) {
  return system.version.empty() ? system.name : fmt::format("{} {}", system.name, system.version);
}

std::string Plural(int count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string DescribeConfig(const SingleNodeConfig& config) {
  return fmt::format("{}{}; median ± MAD of {} of {} samples or more",
                     Plural(config.threads, "thread"),
                     config.cpu ? fmt::format(" pinned to CPU {}", *config.cpu) : "",
                     Plural(config.rounds, "round"), config.samples_per_round);
}

std::string SingleNodeTable(const SingleNodeResults& results) {
  std::string text = fmt::format("{} training, samples/s; {}\n", results.config.model,
                                 DescribeConfig(results.config));
  const std::vector<BatchSummary> all = Summarize(results);
  for (std::size_t start = 0; start < all.size(); start += kBatchesPerBlock) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
    const auto last =
        all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), start + kBatchesPerBlock));
    text += "\n" + AlignColumns(MakeRows(results, {first, last}));
  }
  std::string notes;
  for (const SystemInfo& system : results.systems) {
    if (!system.unavailable.empty()) notes += "not available: " + system.unavailable + "\n";
  }
  for (const std::string& warning : Warnings(results)) notes += "warning: " + warning + "\n";
  if (results.partial) notes += "partial result: " + results.failure + "\n";
  return notes.empty() ? text : text + "\n" + notes;
}

}  // namespace paceline::bench
